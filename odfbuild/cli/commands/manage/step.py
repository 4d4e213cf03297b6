"""odfbuild step run: one step of a coordinator elsewhere, its request and answer documents."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.memory import heap
from odfbuild.errors import EngineFailedError, InvalidQueryError

if TYPE_CHECKING:
    from odfbuild.executors.engine.contract.job import Answer, JobRequest
    from odfbuild.executors.engine.contract.job.run import RanJob


def run(
    request: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST",
            help="The request: a file, or an object such as s3://BUCKET/PREFIX/request.json.",
        ),
    ],
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="SIZE", help="The Java heap of Spark: 2g.")
    ] = None,
) -> int:
    """Carry out the request of a job once, and write the answer next to it."""
    from odfbuild.executors.engine.contract.job.place import place_of
    from odfbuild.executors.engine.contract.job.run import run_job
    from odfbuild.executors.engine.contract.job.step_process import step_answer
    from odfbuild.executors.engine.contract.workers import Worker
    from odfbuild.executors.ingest.elsewhere.worker import COMMAND

    memory = heap(memory)

    def carried_out(asked: JobRequest) -> Answer:
        with TemporaryDirectory(prefix="odfbuild-engine-", ignore_cleanup_errors=True) as folder:
            return step_answer(Worker(Path(folder), memory, COMMAND), asked)

    place, name = place_of(request)
    ran = run_job(place, name, carried_out)
    _report(ran, place.shown(name))
    return exits.DONE


def _report(ran: RanJob, shown: str) -> None:
    """Print what was done; raise what the answer says went wrong."""
    from odfbuild.cli.render.words import count
    from odfbuild.executors.engine.messages import INTERNAL_ERRORS, INVALID_QUERIES

    value = ran.answer.value
    if isinstance(value, INVALID_QUERIES):
        raise InvalidQueryError(
            what=f"{shown}: {value.message}",
            why="the engine refuses the query; the answer says so",
            fix="correct the query where it is declared",
        )
    if isinstance(value, INTERNAL_ERRORS):
        raise EngineFailedError(
            what=f"{shown}: {value.message}",
            why="the engine failed for a reason outside of the query; the answer says so",
            fix="correct the cause, then run the command again",
        )
    size = sum(each.size for each in ran.answer.files)
    done = "was answered earlier" if ran.is_old else "is answered"
    files = count(len(ran.answer.files), "file")
    sys.stdout.write(f"{ran.request.operation} {done}: {files}, {size:,} bytes\n")
