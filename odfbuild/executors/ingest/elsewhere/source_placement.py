"""Placement of sources: whether new files are read and merged here, or by which engine elsewhere.

All files that are to be read of a local source count together for its size, also those that are
read again, so that those of one run go to one place.  A file of a remote source counts alone.
"""

from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.executors.engine.context import RemoteIngest, Site
from odfbuild.executors.ingest.fetch.local import bytes_of, is_local, pending_bytes
from odfbuild.odf.events import SetPollingSource, SourceState
from odfbuild.state.chain.dataset import Dataset

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias


class SourcePlacement:
    """Says where the files of a dataset's source are read and merged."""

    def __init__(self, site: Site, dataset: Dataset) -> None:
        self._site = site
        self._dataset = dataset
        self._size: int | None = None
        self._again: tuple[Path, ...] = ()

    def reads_again(self, paths: Iterable[Path]) -> None:
        """Count files that the order of the source passes over and that are read again."""
        self._again = tuple(paths)

    def place(
        self, source: SetPollingSource, known: SourceState | None, path: Path
    ) -> tuple[str, RemoteIngest] | None:
        """Return the engine for a file that was fetched, with its name; None if that is here.

        `known` is the state of the source before the file.
        """
        placement, target = self._site.placement, self._target
        if placement is None or target is None:
            return None
        if not is_local(source.fetch):
            return placement.place_ingest(target, source, path.stat().st_size)
        if self._size is None:
            reach = partial(self._site.permissions.check_path, project=self._site.project_dir)
            news = pending_bytes(source.fetch, known, self._site.project_dir, reach)
            self._size = news + bytes_of(self._again)
        return placement.place_ingest(target, source, self._size)

    @cached_property
    def _target(self) -> "DatasetAlias | None":
        names = self._site.workspace.names() if self._site.placement is not None else {}
        return next((name for name, id in names.items() if id == self._dataset.id), None)
