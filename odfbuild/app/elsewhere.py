"""Push in a process of its own: where a Spark session of the user runs, ours cannot.

A process has one Spark, and its settings decide what queries mean.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from odfbuild.app.opened import Opened
from odfbuild.errors import EngineError, EngineFailedError
from odfbuild.json_text import parse_json
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias

if TYPE_CHECKING:
    from odfbuild.executors.push import Pushed, Pushing
    from odfbuild.executors.report import Drifted

__all__ = ["push_elsewhere"]

_PROGRAM = "from odfbuild.cli.main import program; program()"
_OF_SPARK = ("PYSPARK_", "_PYSPARK_", "SPARK_")


def push_elsewhere(project: Opened, alias: DatasetAlias, pushing: "Pushing") -> "Pushed":
    """Commit one input as `odfbuild ingest` does.  Raises EngineError with what that says."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_OF_SPARK)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM, "ingest", *_arguments(project, alias, pushing)],
        cwd=project.root, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        told = parse_json(done.stdout)
        error = told["error"]
        if error is None:
            return _pushed(pushing, told, told["inputs"][0])
    except (ValueError, LookupError, TypeError):
        raise EngineFailedError(
            what="odfbuild ingest ended without an answer",
            why=done.stderr.strip().rpartition("\n")[2] or f"its exit code was {done.returncode}",
            fix="write the rows to Parquet files, and push these by odfbuild ingest",
        ) from None
    raise EngineError(error["what"], error["why"], error["fix"])


def _arguments(project: Opened, alias: DatasetAlias, pushing: "Pushing") -> Iterator[str]:
    yield from (str(alias), str(pushing.path), "-C", str(project.root), "-t", project.target)
    yield from ("-o", "json", "--called", pushing.name)
    for name, value in (
        ("--source", pushing.source),
        ("--format", pushing.format),
        ("--event-time", pushing.event_time),
        ("--id", pushing.id),
    ):
        if value is not None:
            yield f"{name}={value}"
    for name, values in (("--var", project.given), ("--vars-file", project.vars_files)):
        for each in values:
            yield f"{name}={each}"


def _pushed(pushing: "Pushing", told: Any, of: Any) -> "Pushed":
    from odfbuild.executors.push import Pushed
    from odfbuild.executors.report import Told

    return Pushed(
        name=pushing.name,
        source=of["source"],
        id=of["id"],
        blocks=of["blocks"],
        records=of["records"],
        head=Multihash.parse(told["head"]),
        repeated=of["outcome"] == "repeated",
        told=Told(of["bad_rows"], of["bad_rows_file"], _drifted(of["drift"])),
    )


def _drifted(drift: Any) -> "Drifted | None":
    from odfbuild.executors.report import Drifted

    if drift is None:
        return None
    return Drifted(
        tuple(drift["added"]),
        tuple(drift["grown"]),
        tuple(drift["missing"]),
        tuple(map(tuple, drift["renamed"])),
    )
