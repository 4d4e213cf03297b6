"""odfbuild watermark: show the watermark of a dataset, or move it forward."""

from __future__ import annotations

import sys
from time import time_ns
from typing import Annotated

import typer

from odfbuild import app
from odfbuild.app.inspection.moment import moment
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import LockTimeout, Name
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.consent import refuse_unnamed
from odfbuild.executors.ingest.fetch.local import SOURCE_NAME
from odfbuild.executors.ingest.manual_watermark import NotARootError, move_watermark
from odfbuild.odf.timestamp import Timestamp


def watermark(
    given: ProjectArguments,
    name: Name,
    to: Annotated[
        str | None,
        typer.Argument(
            metavar="[TIME]",
            help="2024-03-01T12:00:00Z, 2024-03-01, or how long ago: -90m, -12h, -1d, -2w.",
        ),
    ] = None,
    lock_timeout: LockTimeout = 10.0,
) -> int:
    """Show the watermark of a dataset, or advance that of a root. It never moves back."""
    if to is None:
        return show_watermark(given, name)
    return set_watermark(given, name, to, lock_timeout)


def show_watermark(given: ProjectArguments, name: str) -> int:
    """Print the watermark of a dataset."""
    project = open_given(given)
    state = app.find_dataset(project, name).state()
    watermark = None if state is None else state.watermark
    sys.stdout.write(f"{app.find_name(project, name)}  {watermark or 'no watermark'}\n")
    return exits.DONE


def set_watermark(given: ProjectArguments, name: str, to: str, timeout: float) -> int:
    """Move the watermark of a root forward; one that is as late already stays, without an error."""
    now = Timestamp.from_millis(time_ns() // 1_000_000)
    wanted = moment(to, now)
    project = open_given(given, lock_timeout=timeout)
    refuse_unnamed(project, given, "watermark")
    known = app.find_name(project, name)
    try:
        moved = move_watermark(app.find_dataset(project, name), wanted, now=now, source=SOURCE_NAME)
    except NotARootError as error:
        raise NotARootError(f"{known} is no root dataset", error.why, error.fix) from None
    sys.stdout.write(f"{known}  {moved.after}  ({_before_text(wanted, moved.before)})\n")
    return exits.DONE


def _before_text(wanted: Timestamp, before: Timestamp | None) -> str:
    if before is None or before < wanted:
        return f"was {before or 'not set'}"
    return "as it was" if before == wanted else f"unchanged: it never moves back, to {wanted}"
