"""odfbuild engine: start, stop and status of a resident JVM, and the upgrade of the engine."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.app import engine
from odfbuild.app.engine import IDLE, EngineState, Resident
from odfbuild.app.maintenance import engine_upgrade
from odfbuild.app.maintenance.engine_upgrade import EngineUpgrade, Upgraded
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Busy,
    Exclude,
    Jobs,
    LockTimeout,
    OnBusy,
    Selection,
    TextFormat,
    Yes,
)
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.consent import confirm, refuse_unnamed
from odfbuild.cli.formats.replay import json_text, replayed_json, replayed_lines
from odfbuild.cli.reservation import reservation
from odfbuild.errors import UsageRefusedError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app

_IDLE = re.compile(r"([1-9][0-9]{0,5})([smh])")
_UNITS = {"s": 1, "m": 60, "h": 3600}


def start(
    given: ProjectArguments,
    idle: Annotated[
        str | None,
        typer.Option(
            "--idle", metavar="TIME", help="Stop after this time without use: 90s, 15m, 8h."
        ),
    ] = None,
) -> int:
    """Start an engine that keeps running, so that later commands need not start their own."""
    seconds = IDLE if idle is None else _seconds(idle)
    found, started = engine.start(open_given(given), seconds)
    sys.stdout.write("Started. " if started else "It is running already. ")
    sys.stdout.write(f"{_words(found)}\n")
    return exits.DONE


def stop(
    given: ProjectArguments,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for commands that use it; they fail.")
    ] = False,
) -> int:
    """Stop the resident engine once no command uses it."""
    found = engine.stop(open_given(given), now=now)
    is_there = found.state is not EngineState.NONE
    sys.stdout.write("Stopped.\n" if is_there else "No resident engine is running.\n")
    return exits.DONE


def status(
    given: ProjectArguments,
    output: TextFormat = "text",
) -> int:
    """Show whether an engine is resident, who uses it, and if not used why."""
    found = engine.resident(open_given(given))
    text = json.dumps(_resident_document(found), indent=2) if output == "json" else _words(found)
    sys.stdout.write(f"{text}\n")
    return exits.DONE


def _seconds(text: str) -> float:
    found = _IDLE.fullmatch(text)
    if found is None:
        raise UsageRefusedError(
            what=f"'{text}' is not a length of time",
            why="--idle takes a whole number with a unit",
            fix="write it like 90s, 30m or 8h",
        )
    return float(int(found[1]) * _UNITS[found[2]])


def _words(found: Resident) -> str:
    kept = found.kept
    why = "".join(f"\n  not used: {each}" for each in found.why)
    if kept is None:
        words = {EngineState.STARTING: "It is starting.", EngineState.STOPPING: "It is stopping."}
        return words.get(found.state, "No resident engine is running.") + why
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


def _resident_document(found: Resident) -> dict[str, object]:
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


_COMMAND = "engine upgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOptions:
    """What was asked of `engine upgrade`."""

    dry_run: bool = False
    yes: bool = False
    jobs: int = 4
    json: bool = False
    lock_timeout: float = 10.0
    on_busy: str = OnBusy.WAIT


def upgrade(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Rerun the steps, but write nothing.")
    ] = False,
    yes: Yes = False,
    jobs: Jobs = 4,
    output: TextFormat = "text",
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Rerun steps of other engine versions or engines; if results are equal, record this one."""
    options = UpgradeOptions(
        dry_run=dry_run,
        yes=yes,
        jobs=jobs,
        json=output == "json",
        lock_timeout=lock_timeout,
        on_busy=on_busy,
    )
    return upgrade_engine(given, selection or [], exclude or [], options)


def upgrade_engine(
    given: ProjectArguments,
    selectors: Sequence[str],
    exclude: Sequence[str],
    options: UpgradeOptions,
) -> int:
    """Replay what others made; record the version or engine to go on with if all came out again.

    7 if anything did not: then nothing is written.
    """
    from odfbuild.cli.arguments.selection import chosen_readable
    from odfbuild.cli.unreadable import load_readable

    project = open_given(given, lock_timeout=options.lock_timeout)
    if not options.dry_run:
        refuse_unnamed(project, given, _COMMAND)
    names, loaded = chosen_readable(project, selectors, exclude)
    declared = (loaded or load_readable(project)).declared
    chosen = sorted(names)
    wanted = engine_upgrade.outdated(project, chosen, declared)
    if not options.json:
        for name, engine in engine_upgrade.without_steps(project, chosen, declared):
            sys.stdout.write(
                f"{name}: no steps to run again, so odfbuild apply changes its engine to {engine}\n"
            )
    if options.dry_run or not wanted:
        return _upgrade(project, wanted, len(chosen), options)
    targets = [each.alias for each in wanted]
    with reservation(project, targets, command=_COMMAND, on_busy=options.on_busy) as mine:
        left = [each for each in chosen if each not in mine.busy]
        if mine.waited or mine.busy:
            wanted = engine_upgrade.outdated(project, left, declared)
        return _upgrade(project, wanted, len(left), options)


def _upgrade(
    project: app.Opened, wanted: Sequence[EngineUpgrade], chosen: int, options: UpgradeOptions
) -> int:
    if wanted and not options.yes and not options.dry_run and not sys.stdin.isatty():
        confirm(_COMMAND)  # refuses at once what nobody could answer at the end
    found = _replay(project, wanted, options)
    passed = all(each.passed for each in found)
    writes = bool(found) and passed and not options.dry_run
    if writes and not options.yes:
        confirm(_COMMAND)
    if writes:
        engine_upgrade.record(project, wanted)
    _print_upgrades(found, chosen, options, written=writes)
    return exits.DONE if passed else exits.NOT_VERIFIED


def _replay(
    project: app.Opened, wanted: Sequence[EngineUpgrade], options: UpgradeOptions
) -> tuple[Upgraded, ...]:
    """Run the steps again, and print a line for each dataset as it is done."""
    width = max((len(str(each.alias)) for each in wanted), default=0)
    found = []
    for each in engine_upgrade.replayed(project, wanted, options.jobs):
        found.append(each)
        if not options.json:
            sys.stdout.write("".join(f"{line}\n" for line in _lines(each, width)))
            sys.stdout.flush()
    return tuple(found)


def _lines(each: Upgraded, width: int) -> list[str]:
    upgrade, mark = each.upgrade, "ok" if each.passed else "FAILED"
    tried = [step for step in each.replayed if step.untried is None]
    count = "1 step" if len(tried) == 1 else f"{len(tried):,} steps"
    first = f"{upgrade.alias!s:<{width}}  {mark:<6}  {upgrade.before} -> {upgrade.after}"
    failed = next((step for step in each.replayed if step.findings), None)
    more = [] if failed is None else [f"  {line}" for line in replayed_lines(failed)]
    return [f"{first}, {count} run again", *more]


def _print_upgrades(
    found: Sequence[Upgraded], chosen: int, options: UpgradeOptions, *, written: bool
) -> None:
    if options.json:
        sys.stdout.write(json_text(_document(found, written=written)) + "\n")
        return
    failed = [each for each in found if not each.passed]
    word = "dataset" if len(found) == 1 else "datasets"
    if not found:
        of = "1 dataset" if chosen == 1 else f"{chosen:,} datasets"
        text = f"Nothing to upgrade in {of}."
    elif failed:
        names = " ".join(f"--exclude {each.upgrade.alias}" for each in failed)
        others = f" To leave out what failed: {names}." if len(failed) < len(found) else ""
        text = f"{len(failed)} of {len(found)} {word} failed, so nothing was written.{others}"
    elif written:
        text = f"{len(found)} {word} upgraded."
    else:
        text = f"{len(found)} {word} would be upgraded."
    sys.stdout.write(f"{text}\n")


def _document(found: Sequence[Upgraded], *, written: bool) -> dict[str, object]:
    return {
        "format_version": "1.0",
        "datasets": [
            {
                "name": str(each.upgrade.alias),
                "id": str(each.upgrade.id),
                "before": each.upgrade.before,
                "after": each.upgrade.after,
                "ok": each.passed,
                "steps": [replayed_json(step) for step in each.replayed],
            }
            for each in found
        ],
        "written": written,
    }
