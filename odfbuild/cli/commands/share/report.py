"""Reports of transfers: bytes and remaining time, and the outcome."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from odfbuild.cli.render.words import bytes_text, count
from odfbuild.cli.terminal.console import is_quiet, printable, stderr_console

if TYPE_CHECKING:
    from odfbuild.repositories.comparison import Comparison, Extent
    from odfbuild.repositories.transfer import Transferred


class TransferProgress(Protocol):
    """Hears of the transfers of one command, one after the other."""

    def named(self, name: str) -> None:
        """Hear which dataset comes next."""

    def begins(self, blocks: int, files: int, size: int) -> None:
        """Hear what is to be moved."""

    def moved(self, size: int) -> None:
        """Hear of bytes that were moved, from several threads."""


class QuietTransfers:
    """Shows nothing."""

    def named(self, name: str) -> None:
        pass

    def begins(self, blocks: int, files: int, size: int) -> None:
        pass

    def moved(self, size: int) -> None:
        pass


class LiveTransfers:
    """A bar with bytes, their rate and the time that is left."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=stderr_console(),
            transient=True,
        )
        self._task: Any = None
        self._lock = threading.Lock()

    def named(self, name: str) -> None:
        if self._task is not None:
            self.bars.remove_task(self._task)
        self._task = self.bars.add_task(printable(name), total=None)

    def begins(self, blocks: int, files: int, size: int) -> None:  # noqa: ARG002
        self.bars.update(self._task, total=size)

    def moved(self, size: int) -> None:
        with self._lock:
            self.bars.update(self._task, advance=size)


@contextmanager
def watching_transfers(*, live: bool) -> Iterator[TransferProgress]:
    """Give the progress that fits where stderr goes, if it is wanted."""
    if is_quiet() or not live or not sys.stderr.isatty():
        yield QuietTransfers()
        return
    progress = LiveTransfers()
    with progress.bars:
        yield progress


def transfer_line(name: str, place: str, found: Transferred, *, pushed: bool, dry: bool) -> str:
    """Return one line on what a transfer moved, or would move."""
    if found.is_named:
        return f"{name}  received from {place} by an earlier interrupted pull; its name is set now"
    if found.is_done:
        return f"{name}  equal to {place}, nothing to {'push' if pushed else 'pull'}"
    if found.before == found.head and found.restored:
        back = f"{count(found.restored, 'lost file')} of {bytes_text(found.size)}"
        return f"{name}  equal to {place}, {'would bring' if dry else 'brought'} back: {back}"
    what = [
        count(found.blocks, "block"),
        count(found.records, "record"),
        f"{count(found.files, 'file')} of {bytes_text(found.size)}",
    ]
    verb = "pushed to" if pushed else "pulled from"
    if dry:
        verb = "would be " + verb
    new = "new, " if found.is_new else ""
    return f"{name}  {new}{verb} {place}: {', '.join(what)}{_lost(found.comparison, pushed)}"


def loss_text(comparison: Comparison, *, pushed: bool) -> str | None:
    """Return what force takes away, None if it is nothing."""
    from odfbuild.repositories.comparison import Ahead, Behind, Diverged

    match comparison:
        case Diverged(here_only=here, there_only=there):
            return extent_text(there if pushed else here)
        case Behind(missing=missing) if pushed:
            return extent_text(missing)
        case Ahead(more=more) if not pushed:
            return extent_text(more)
        case _:
            return None


def extent_text(extent: Extent) -> str:
    """Return how much some blocks of a chain are."""
    return f"{count(extent.blocks, 'block')} with {count(extent.records, 'record')}"


def relation(comparison: Comparison) -> dict[str, Any]:
    """Return how two sides relate, as JSON has it."""
    from odfbuild.repositories.comparison import Ahead, Behind, Diverged

    match comparison:
        case Ahead(more=more):
            return {"relation": "ahead", "here_only": _extent(more)}
        case Behind(missing=missing):
            return {"relation": "behind", "there_only": _extent(missing)}
        case Diverged(here_only=here, there_only=there):
            return {
                "relation": "diverged",
                "here_only": _extent(here),
                "there_only": _extent(there),
            }
        case _:
            return {"relation": "equal"}


def transfer_json(found: Transferred, place: str) -> dict[str, Any]:
    """Return a transfer as JSON has it."""
    return {
        "id": str(found.dataset),
        "place": place,
        "before": None if found.before is None else str(found.before),
        "head": str(found.head),
        **relation(found.comparison),
        "blocks": found.blocks,
        "records": found.records,
        "files": found.files,
        "bytes": found.size,
        "restored": found.restored,
        "named": found.is_named,
        "notes": list(found.notes),
    }


def _lost(comparison: Comparison, pushed: bool) -> str:
    lost = loss_text(comparison, pushed=pushed)
    return "" if lost is None else f"; in the place of {lost}"


def _extent(extent: Extent) -> dict[str, int]:
    return {"blocks": extent.blocks, "records": extent.records}
