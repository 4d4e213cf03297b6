#!/bin/sh
# Builds examples/water-levels in a folder of its own, lets new files arrive, and builds again.
# Needs odfbuild on the PATH.  demo.sh FOLDER works in that folder and leaves everything there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -gt 0 ]; then
    work=$1
else
    work=$(mktemp -d "${TMPDIR:-/tmp}/odfbuild-demo.XXXXXX")
    trap 'rm -rf "$work"' EXIT
fi

bold= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi

run() {
    printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"
    "$@"
}

say() {
    printf '\n# %s\n' "$*"
}

cp -R "$here/water-levels" "$work/water-levels"
cd "$work/water-levels"

say "Six datasets in YAML: two roots that read files, four that are made from them."
run ls datasets
say "What would be done?"
run odfbuild plan
say "Do it."
run odfbuild apply --yes
run odfbuild show water.high-water

say "Nothing has changed since, so there is nothing to do."
run odfbuild plan

say "A new day: new readings, and the table of stations is another one."
run cp later/2031-04-03-levels.csv data/levels/2031-04-03.csv
run cp later/2031-04-03-stations.csv data/stations/2031-04-03.csv
run odfbuild plan
run odfbuild apply --yes
run odfbuild show water.high-water
say "A station was corrected (op 2 the old row, 3 the new one), another one taken back (op 1) ..."
run odfbuild show water.stations
say "... and so were the rows that had been made of them."
run odfbuild show water.sensors
say "A group has one row, corrected by each new reading; in which files they came does not show."
run odfbuild show water.peaks

say "The chain of a dataset says how each row came to be; verify rehashes blocks and data."
run odfbuild log water.sensors
run odfbuild verify
