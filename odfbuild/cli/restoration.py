"""odfbuild rebuild --restore: say which files are lost, make them again, and say what became."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odfbuild.app.restoration import Losses, find_losses, restorations
from odfbuild.cli import exits
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given
from odfbuild.cli.printable import printable, printable_json
from odfbuild.cli.words import count
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias

if TYPE_CHECKING:
    from odfbuild.executors.restoration import LostFile, Restored

__all__ = ["restore_selected"]


@dataclass(frozen=True, slots=True)
class _Found:
    """A lost file of a dataset, and what became of it; None where nothing was tried."""

    name: DatasetAlias
    lost: "LostFile"
    restored: "Restored | None"

    @property
    def is_restored(self) -> bool:
        return self.restored is not None and self.restored.why is None


def restore_selected(
    given: Given,
    selectors: Sequence[str],
    exclude: Sequence[str],
    *,
    dry_run: bool,
    as_json: bool,
    reencode: bool,
) -> int:
    """Restore lost files of datasets, of all by default; 1 if none could be, 4 if some could not.

    Without a loss nothing is done, and no engine starts.
    """
    from odfbuild.cli.selection import chosen_existing

    project = open_given(given)
    known = project.workspace.names()
    names = {known[name]: name for name in sorted(chosen_existing(project, selectors, exclude))}
    losses = find_losses(project, tuple(names))
    found: list[_Found] = []
    told = _tried(losses, names) if dry_run else _done(
        names, restorations(project, losses, reencode=reencode)
    )  # fmt: skip
    for each in told:
        found.append(each)
        if not as_json:
            sys.stdout.write(_line(each))
            sys.stdout.flush()
    if as_json:
        sys.stdout.write(_json(found, losses, names))
    else:
        _conclude(found, losses, names, dry_run=dry_run)
    failed = bool(losses.unreadable) or any(not each.is_restored for each in found)
    if dry_run or not failed:
        return exits.ERROR if dry_run and losses.unreadable else exits.DONE
    return exits.PARTLY if any(each.is_restored for each in found) else exits.ERROR


def _tried(losses: Losses, names: Mapping[DatasetId, DatasetAlias]) -> Iterator[_Found]:
    for dataset, files in losses.files.items():
        yield from (_Found(names[dataset], each, None) for each in files)


def _done(
    names: Mapping[DatasetId, DatasetAlias], found: "Iterator[tuple[DatasetId, Restored]]"
) -> Iterator[_Found]:
    for dataset, each in found:
        yield _Found(names[dataset], each.lost, each)


def _line(found: _Found) -> str:
    lost, restored = found.lost, found.restored
    state = "damaged" if lost.is_damaged else "missing"
    line = f"{found.name}  block {lost.sequence:,}  {lost.what}  {lost.hash.short()}  {state}"
    if restored is None:
        return f"{line}\n" if lost.step else f"{line}, and data of a root cannot be made again\n"
    if restored.why is not None:
        return printable(f"{line}, NOT RESTORED: {restored.why}") + "\n"
    anew = ", encoded anew" if restored.outcome == "reencoded" else ""
    return f"{line}, restored{anew}\n"


def _conclude(
    found: Sequence[_Found],
    losses: Losses,
    names: Mapping[DatasetId, DatasetAlias],
    *,
    dry_run: bool,
) -> None:
    for dataset, why in losses.unreadable.items():
        sys.stdout.write(printable(f"{names[dataset]}  its chain cannot be read: {why}") + "\n")
    if not found and not losses.unreadable:
        sys.stdout.write("Nothing to restore: every file is as its block records it.\n")
    elif dry_run:
        steps = len({id(each.lost.step) for each in found if each.lost.step is not None})
        sys.stdout.write(f"{count(steps, 'step')} would be run again.\n")
    else:
        done = sum(each.is_restored for each in found)
        sys.stdout.write(f"{done:,} of {count(len(found), 'file')} restored.\n")
        sys.stderr.write("".join(f"{each}\n" for each in _ways(found)))


def _ways(found: Sequence[_Found]) -> Iterator[str]:
    """Yield what to do about the files that were not restored, each way once."""
    left = [each for each in found if not each.is_restored]
    roots = sorted({str(each.name) for each in left if each.lost.step is None})
    made = sorted({str(each.name) for each in left if each.lost.step is not None})
    if roots:
        yield f"Restore from a copy, or import or pull again: {', '.join(roots)}."
    if made:
        yield (
            f"What cannot be restored can be made anew in a new chain: odfbuild rebuild {made[0]} "
            "--downstream."
        )
    if any("in other bytes" in ((each.restored and each.restored.why) or "") for each in left):
        yield (
            "To put the recorded rows in place in other bytes: --reencode. verify and steps accept "
            "them; whoever copies the dataset by its hashes does not."
        )


def _json(found: Sequence[_Found], losses: Losses, names: Mapping[DatasetId, DatasetAlias]) -> str:
    from odfbuild.cli.replayed import json_text

    document: dict[str, Any] = {
        "format_version": "1.0",
        "files": [_json_file(each) for each in found],
        "unreadable": [
            {"dataset": str(names[dataset]), "why": why}
            for dataset, why in losses.unreadable.items()
        ],
        "failed": sum(each.restored is not None and not each.is_restored for each in found),
    }
    return printable_json(json_text(document)) + "\n"


def _json_file(found: _Found) -> Mapping[str, Any]:
    lost, restored = found.lost, found.restored
    return {
        "dataset": str(found.name),
        "block": str(lost.block),
        "sequence": lost.sequence,
        "file": lost.what,
        "hash": str(lost.hash),
        "found": "damaged" if lost.is_damaged else "missing",
        "outcome": None if restored is None else str(restored.outcome),
        "why": None if restored is None else restored.why,
    }
