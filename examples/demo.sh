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

run() {
    printf '\n\033[1m$ %s\033[0m\n' "$*"
    "$@"
}

say() {
    printf '\n# %s\n' "$*"
}

cp -R "$here/water-levels" "$work/water-levels"
cd "$work/water-levels"

say "Five datasets in YAML: two roots that read files, three that are made from them."
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
say "op 2 and 3 are a correction, 1 takes a row back: they went through to the sensors."
run odfbuild show water.sensors

say "The chain of a dataset says how each row came to be; verify rehashes blocks and data."
run odfbuild log water.sensors
run odfbuild verify
