"""odfbuild watermark: show the watermark of a dataset, or move it forward."""

import re
import sys
from time import time_ns

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given
from odfbuild.cli.usage import UsageRefusedError
from odfbuild.executors.local import SOURCE_NAME
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.state.watermarks import NotARootError, move_watermark

__all__ = ["moment", "set_watermark", "show_watermark"]

_AGO = re.compile(r"-([0-9]{1,9})([smhdw])")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MEANING = "a watermark is the event time up to which a dataset is complete"
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def show_watermark(given: Given, name: str) -> int:
    """Print the watermark of a dataset."""
    project = open_given(given)
    state = app.find_dataset(project, name).state()
    watermark = None if state is None else state.watermark
    sys.stdout.write(f"{app.find_name(project, name)}  {watermark or 'no watermark'}\n")
    return exits.DONE


def set_watermark(given: Given, name: str, to: str, timeout: float) -> int:
    """Move the watermark of a root forward; one that is as late already stays, without an error."""
    now = Timestamp.from_millis(time_ns() // 1_000_000)
    wanted = moment(to, now)
    project = open_given(given, lock_timeout=timeout)
    _refuse_unnamed(project, given)
    known = app.find_name(project, name)
    try:
        moved = move_watermark(app.find_dataset(project, name), wanted, now=now, source=SOURCE_NAME)
    except NotARootError as error:
        raise NotARootError(f"{known} is no root dataset", error.why, error.fix) from None
    sys.stdout.write(f"{known}  {moved.after}  ({_told(wanted, moved.before)})\n")
    return exits.DONE


def moment(text: str, now: Timestamp, *, why: str = _MEANING) -> Timestamp:
    """Read an instant, a day (its first instant in UTC), or how long ago, such as -1d.

    `why` tells what the time is for.  Raises UsageRefusedError for anything else.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago is None:
            whole = f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text
            return Timestamp.parse(whole)
        then = Timestamp(now.nanos - int(ago[1]) * _SECONDS[ago[2]] * 10**9)
        then.to_datetime()
    except InvalidTimestampError:
        raise UsageRefusedError(
            what=f"{text!r} is not a point in time",
            why=why,
            fix="write it like 2024-03-01T12:00:00Z, 2024-03-01 or -1d; units are s, m, h, d and w",
        ) from None
    return then


def _told(wanted: Timestamp, before: Timestamp | None) -> str:
    if before is None or before < wanted:
        return f"was {before or 'not set'}"
    return "as it was" if before == wanted else f"as it was: it never goes back, to {wanted}"


def _refuse_unnamed(project: app.Opened, given: Given) -> None:
    target = project.config.target(project.target)
    if target.protect and given.target != target.name:
        raise UsageRefusedError(
            what=f"the target '{target.name}' is protected, and was not named",
            why="odfbuild.yaml says protect: it is never changed by default",
            fix=f"name it: odfbuild watermark --target {target.name} ...",
        )
