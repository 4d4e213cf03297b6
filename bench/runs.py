"""Time the commands that look back: status and runs, of many datasets and many records.

python -m bench.runs [--datasets N] [--records N] [--times N]; every command is a process of its
own.  No engine is started: the datasets have definitions only, the records no steps.
"""

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.measure import Command, spread
from bench.projects import many_datasets
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.runs import Ended, RunSummary, begin_run, new_run_id

__all__ = ["main"]

_FIRST = 1_700_000_000_000  # milliseconds since 1970


def main() -> None:
    """Make a workspace once, and time each command so many times."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--datasets", type=int, default=1000)
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--times", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        many_datasets(project, given.datasets)
        print(f"making {given.datasets:,} datasets and {given.records:,} records ...", flush=True)
        command("apply", "--yes", "--no-data", folder=project).run()
        for number in range(given.records):
            record(project / ".odfbuild", number)
        for asked in (("status",), ("runs",), ("runs", "-n", "100000"), ("runs", "-o", "json"),
                      ("runs", "last")):  # fmt: skip
            one = command(*asked, folder=project)
            one.run()
            found = [one.run() for _ in range(given.times)]
            wall, spent = spread([r.wall for r in found]), spread([r.cpu for r in found])
            print(f"{one.name:24} {wall} s, processor {spent} s", flush=True)


def command(*arguments: str, folder: Path) -> Command:
    """Return a command of odfbuild as a process."""
    program = str(Path(sys.executable).parent / "odfbuild")
    name = " ".join(arguments)
    return Command(name=name, arguments=(program, *arguments), folder=folder, settings={})


def record(workspace: Path, number: int) -> None:
    """Write the record of a run that had nothing to do."""
    started = Timestamp.from_millis(_FIRST + number * 60_000)
    summary = RunSummary(
        id=new_run_id(_FIRST + number * 60_000, number % (1 << 15)),
        command="apply",
        started=started,
        user="bench",
        host="bench",
        pid=number,
        project="bench",
        target="dev",
        version="0",
        steps=0,
    )
    run = begin_run(workspace, summary, "{}")
    if run is None:
        raise SystemExit(f"nothing can be written to {workspace}")
    run.end(replace(summary, ended=Timestamp.from_millis(_FIRST + 1), outcome=Ended.DONE))


if __name__ == "__main__":
    main()
