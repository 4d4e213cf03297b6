"""Transfers of several datasets: the common part of pull, clone and push."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odfbuild.cli import exits
from odfbuild.cli.commands.share.report import (
    loss_text,
    transfer_json,
    transfer_line,
    watching_transfers,
)
from odfbuild.cli.consent import confirm
from odfbuild.cli.terminal.console import hint, printable, printable_json
from odfbuild.errors import OdfBuildError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.cli.commands.share.report import TransferProgress
    from odfbuild.repositories.transfer import TransferMode, Transferred

Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Drop blocks that only the target has; they are shown and must be confirmed.",
    ),
]
Parallel = Annotated[int, typer.Option("-j", "--jobs", min=1, help="Number of files at a time.")]

Move = Callable[["TransferMode", "TransferProgress | None"], "Transferred"]


@dataclass(frozen=True, slots=True)
class NamedTransfer:
    """A transfer that is to be made: of which dataset, with which place."""

    name: str
    place: str
    move: Move


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """How transfers are made and reported.

    `command` is push, pull or clone; `words` is what makes the same transfers again.
    """

    command: str
    words: str
    mode: TransferMode
    output: str = "text"
    yes: bool = False
    live: bool = True

    @property
    def pushed(self) -> bool:
        return self.command == "push"


def transfer_all(
    project: app.Opened, wanted: Sequence[NamedTransfer], options: TransferOptions
) -> int:
    """Make transfers one after the other, and print the outcome of each; return the exit code.

    One that fails does not keep the others back.  With force, what it takes away is said first.
    """
    if options.mode.force and not options.mode.dry_run:
        _consent(wanted, options)
    if options.output == "ndjson":
        return _with_events(project, wanted, options)
    done: list[dict[str, Any]] = []
    errors: list[OdfBuildError] = []
    with watching_transfers(live=options.live and options.output == "text") as progress:
        for each in wanted:
            progress.named(each.name)
            try:
                found = each.move(options.mode, progress)
            except OdfBuildError as error:
                if len(wanted) == 1:
                    raise
                errors.append(error)
                done.append({"name": each.name, "place": each.place, "error": _error(error)})
                _say_error(each, error)
                continue
            done.append({"name": each.name, **transfer_json(found, each.place)})
            if options.output == "text":
                _say(each, found, options)
    if options.output == "json":
        document = {"format_version": "1.0", "command": options.command, "datasets": done}
        sys.stdout.write(printable_json(json.dumps(document, indent=2)) + "\n")
    return _code(errors, len(wanted))


def _consent(wanted: Sequence[NamedTransfer], options: TransferOptions) -> None:
    """Say what is taken away, and ask; where nothing is, nobody is asked."""
    from odfbuild.repositories.transfer import ChainsDivergedError, ForceNeededError

    dry = replace(options.mode, dry_run=True)
    lost = False
    for each in wanted:
        try:
            found = each.move(dry, None)
        except (ChainsDivergedError, ForceNeededError):  # of another head than a moment ago
            raise
        except OdfBuildError:
            continue  # which the transfer itself will say
        gone = loss_text(found.comparison, pushed=options.pushed)
        if gone is not None:
            lost = True
            side = each.place if options.pushed else "the workspace"
            sys.stderr.write(printable(f"{each.name}: {side} loses {gone}") + "\n")
    if lost and not options.yes:
        confirm(f"{options.words} --force")


def _with_events(
    project: app.Opened, wanted: Sequence[NamedTransfer], options: TransferOptions
) -> int:
    from odfbuild.cli.terminal.events import printed_events

    errors: list[OdfBuildError] = []
    with printed_events(project, options.command, len(wanted)) as (events, counts):
        for each in wanted:
            try:
                found = each.move(options.mode, None)
            except OdfBuildError as error:
                errors.append(error)
                counts["failed"] += 1
                events.add(
                    "transfer",
                    each.name,
                    "error",
                    outcome="failed",
                    place=each.place,
                    error=_error(error),
                )
                continue
            outcome = "unchanged" if found.is_done else "done"
            counts[outcome] += 1
            events.add("transfer", each.name, outcome=outcome, **transfer_json(found, each.place))
    return _code(errors, len(wanted))


def _code(errors: Sequence[OdfBuildError], wanted: int) -> int:
    if not errors:
        return exits.DONE
    return exits.exit_code(errors[0]) if len(errors) == wanted else exits.PARTLY


def _say(each: NamedTransfer, found: Transferred, options: TransferOptions) -> None:
    line = transfer_line(
        each.name, each.place, found, pushed=options.pushed, dry=options.mode.dry_run
    )
    sys.stdout.write(printable(line) + "\n")
    sys.stdout.flush()
    for note in found.notes:
        hint(printable(f"note: {each.name}: {note}") + "\n")


def _say_error(each: NamedTransfer, error: OdfBuildError) -> None:
    from odfbuild.cli.render.diagnostics import render_diagnostics

    sys.stderr.write(printable(f"{each.name}:") + "\n")
    sys.stderr.write(render_diagnostics(error.diagnostics()) + "\n")
    sys.stderr.flush()


def _error(error: OdfBuildError) -> dict[str, str]:
    return {"code": error.code, "what": error.what, "why": error.why, "fix": error.fix}
