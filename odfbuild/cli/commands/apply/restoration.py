"""odfbuild rebuild --restore: the files that are lost, made again, and a report of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odfbuild.app.maintenance.restoration import Losses, find_losses, foreseen, restorations
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.kept_jobs import report_kept_jobs
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.verify.restoration import LostFile, Restored
    from odfbuild.odf.identity import DatasetId
    from odfbuild.odf.refs import DatasetAlias


@dataclass(frozen=True, slots=True)
class _LostFile:
    """A lost file of a dataset, and what became of it, or would."""

    name: DatasetAlias
    lost: LostFile
    restored: Restored

    @property
    def is_restored(self) -> bool:
        return self.restored.why is None


def restore_selected(
    given: ProjectArguments,
    selectors: Sequence[str],
    exclude: Sequence[str],
    *,
    dry_run: bool,
    as_json: bool,
    reencode: bool,
) -> int:
    """Restore lost files of datasets, of all by default; 1 if none could be, 4 if some could not.

    Without a loss nothing is done, and no engine starts.  With `dry_run` nothing is done either,
    and the exit code is that of what would be.
    """
    from odfbuild.cli.arguments.selection import chosen_existing

    project = open_given(given)
    known = project.workspace.names()
    names = {known[name]: name for name in sorted(chosen_existing(project, selectors, exclude))}
    losses = find_losses(project, tuple(names))
    found: list[_LostFile] = []
    restored = (
        foreseen(project, losses) if dry_run else restorations(project, losses, reencode=reencode)
    )
    for dataset, each in restored:
        found.append(_LostFile(names[dataset], each.lost, each))
        if not as_json:
            sys.stdout.write(_line(found[-1], dry_run=dry_run))
            sys.stdout.flush()
    report_kept_jobs()
    if as_json:
        sys.stdout.write(_json(found, losses, names, dry_run=dry_run))
    else:
        _conclude(found, losses, names, dry_run=dry_run)
    failed = bool(losses.unreadable) or any(not each.is_restored for each in found)
    if not failed:
        return exits.DONE
    return exits.PARTLY if any(each.is_restored for each in found) else exits.ERROR


def _line(found: _LostFile, *, dry_run: bool) -> str:
    lost, restored = found.lost, found.restored
    state = "damaged" if lost.is_damaged else "missing"
    line = f"{found.name}  block {lost.sequence:,}  {lost.what}  {lost.hash.short()}  {state}"
    if restored.why is not None:
        word = "CANNOT BE RESTORED" if dry_run else "NOT RESTORED"
        return printable(f"{line}, {word}: {restored.why}") + "\n"
    if dry_run:
        return f"{line}\n"
    note = ", encoded again" if restored.outcome == "reencoded" else ""
    there = "" if restored.place is None else f", by {restored.place}"
    return f"{line}, restored{note}{there}\n"


def _conclude(
    found: Sequence[_LostFile],
    losses: Losses,
    names: Mapping[DatasetId, DatasetAlias],
    *,
    dry_run: bool,
) -> None:
    for dataset, why in losses.unreadable.items():
        sys.stdout.write(printable(f"{names[dataset]}  its chain cannot be read: {why}") + "\n")
    if not found and not losses.unreadable:
        sys.stdout.write("Nothing to restore: all files are there, with the recorded rows.\n")
    elif dry_run:
        steps = len({id(each.lost.step) for each in found if each.is_restored})
        sys.stdout.write(f"{count(steps, 'step')} would be rerun.\n")
        sys.stderr.write("".join(f"{each}\n" for each in _ways(found)))
    else:
        done = sum(each.is_restored for each in found)
        sys.stdout.write(f"{done:,} of {count(len(found), 'file')} restored.\n")
        sys.stderr.write("".join(f"{each}\n" for each in _ways(found)))


def _ways(found: Sequence[_LostFile]) -> Iterator[str]:
    """Yield what to do about the files that were not restored, each way once."""
    left = [each for each in found if not each.is_restored]
    roots = sorted({str(each.name) for each in left if each.lost.step is None})
    made = sorted({str(each.name) for each in left if each.lost.step is not None})
    if roots:
        yield f"Restore from a copy, or import or pull again: {', '.join(roots)}."
    if made:
        yield (
            f"To rebuild in a new chain what cannot be restored: odfbuild rebuild {made[0]} "
            "--downstream."
        )
    if any("in other bytes" in (each.restored.why or "") for each in left):
        yield (
            "To restore the recorded rows with other bytes: --reencode. verify and steps accept "
            "such files; transfers, which check hashes, do not."
        )


def _json(
    found: Sequence[_LostFile],
    losses: Losses,
    names: Mapping[DatasetId, DatasetAlias],
    *,
    dry_run: bool,
) -> str:
    from odfbuild.cli.formats.replay import json_text

    document: dict[str, Any] = {
        "format_version": "1.0",
        "files": [_json_file(each, dry_run=dry_run) for each in found],
        "unreadable": [
            {"dataset": str(names[dataset]), "why": why}
            for dataset, why in losses.unreadable.items()
        ],
        "failed": sum(not each.is_restored for each in found),
    }
    return printable_json(json_text(document)) + "\n"


def _json_file(found: _LostFile, *, dry_run: bool) -> Mapping[str, Any]:
    """Return what became of a file; null where that will only be known once its step was run."""
    lost, restored = found.lost, found.restored
    return {
        "dataset": str(found.name),
        "block": str(lost.block),
        "sequence": lost.sequence,
        "file": lost.what,
        "hash": str(lost.hash),
        "found": "damaged" if lost.is_damaged else "missing",
        "outcome": None if dry_run and found.is_restored else str(restored.outcome),
        "why": restored.why,
    } | ({} if restored.place is None else {"place": restored.place})
