"""odfbuild engine start, stop and status: a JVM that stays for the commands to come."""

import json
import re
import sys
from datetime import UTC, datetime

from odfbuild.app.residing import IDLE, Resident, State, resident, start, stop
from odfbuild.cli import exits
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given
from odfbuild.cli.usage import UsageRefusedError

__all__ = ["engine_status", "start_engine", "stop_engine"]

_IDLE = re.compile(r"([1-9][0-9]{0,5})([smh])")
_UNITS = {"s": 1, "m": 60, "h": 3600}


def start_engine(given: Given, idle: str | None) -> int:
    """Start a resident engine, unless one is there."""
    seconds = IDLE if idle is None else _seconds(idle)
    found, started = start(open_given(given), seconds)
    sys.stdout.write("Started. " if started else "It runs already. ")
    sys.stdout.write(f"{_words(found)}\n")
    return exits.DONE


def stop_engine(given: Given, *, now: bool) -> int:
    """Stop the resident engine, if there is one."""
    found = stop(open_given(given), now=now)
    is_there = found.state is not State.NONE
    sys.stdout.write("Stopped.\n" if is_there else "No resident engine runs.\n")
    return exits.DONE


def engine_status(given: Given, *, as_json: bool) -> int:
    """Tell how the resident engine is, and why it is not used if it is not."""
    found = resident(open_given(given))
    text = json.dumps(_document(found), indent=2) if as_json else _words(found)
    sys.stdout.write(f"{text}\n")
    return exits.DONE


def _seconds(text: str) -> float:
    found = _IDLE.fullmatch(text)
    if found is None:
        raise UsageRefusedError(
            what=f"'{text}' is not a time to wait",
            why="--idle takes a whole number and a unit",
            fix="write it like 90s, 30m or 8h",
        )
    return float(int(found[1]) * _UNITS[found[2]])


def _words(found: Resident) -> str:
    kept = found.kept
    why = "".join(f"\n  not used: {each}" for each in found.why)
    if kept is None:
        ending = found.state is State.STOPPING
        return ("It is about to end." if ending else "No resident engine runs.") + why
    used = "1 command uses it" if len(found.users) == 1 else f"{len(found.users)} commands use it"
    ends = f"it ends after {_span(kept.idle)} without any"
    heap = f"{kept.traits.get('memory')} of memory at most"
    return f"Process {kept.pid} (Java {kept.java_pid}), {heap}; {used}, {ends}.{why}"


def _span(seconds: float) -> str:
    whole = int(seconds)
    for unit in ("h", "m"):
        if whole % _UNITS[unit] == 0:
            return f"{whole // _UNITS[unit]}{unit}"
    return f"{whole}s"


def _document(found: Resident) -> dict[str, object]:
    kept = found.kept
    return {
        "format_version": "1.0",
        "state": found.state.value,
        "why": list(found.why),
        "pid": None if kept is None else kept.pid,
        "java_pid": None if kept is None else kept.java_pid,
        "since": None if kept is None else _instant(kept.since),
        "idle_after": None if kept is None else kept.idle,
        "idle_for": found.idle_for,
        "users": list(found.users),
        "served": found.served,
        "traits": None if kept is None else dict(kept.traits),
    }


def _instant(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
