"""Placement of sources: whether new files are read and merged here, or by which engine elsewhere.

All new files of a source count together for its size, so that those of one run go to one place.
"""

from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.executors.engine.context import RemoteIngest, Site
from odfbuild.executors.ingest.fetch.local import pending_bytes
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

    def place(
        self, source: SetPollingSource, known: SourceState | None, path: Path
    ) -> tuple[str, RemoteIngest] | None:
        """Return the engine for a file that was fetched, with its name; None if that is here.

        `known` is the state of the source before the file.
        """
        placement, target = self._site.placement, self._target
        if placement is None or target is None:
            return None
        if self._size is None:
            reach = partial(self._site.permissions.check_path, project=self._site.project_dir)
            self._size = pending_bytes(source.fetch, known, self._site.project_dir, reach)
        return placement.place_ingest(target, source, self._size or path.stat().st_size)

    @cached_property
    def _target(self) -> "DatasetAlias | None":
        names = self._site.workspace.names() if self._site.placement is not None else {}
        return next((name for name, id in names.items() if id == self._dataset.id), None)
