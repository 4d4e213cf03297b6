"""Workspace of an edited project: each chain is read once for each head that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import ReadOnlyWorkspace
from odfbuild.values import dataclass


@dataclass(slots=True)
class KnownChains:
    """Names as of a mark of theirs, and states by id, of the checks before."""

    mark: str | None = None
    names: Mapping[DatasetAlias, DatasetId] = field(default_factory=dict)
    states: dict[DatasetId, ChainState] = field(default_factory=dict)


class EditedWorkspace(ReadOnlyWorkspace):
    """The workspace of one check; of datasets whose heads are the same, the state is known.

    Each check notes damage again, as no state of a damaged chain is kept.
    """

    def __init__(self, root: Path, known: KnownChains) -> None:
        super().__init__(root)
        self._known = known

    def names(self) -> Mapping[DatasetAlias, DatasetId]:
        """Return the ids of all datasets by alias, read again if any name changed."""
        mark = self.names_mark()
        if self._known.mark != mark:
            self._known.names = super().names()
            self._known.mark = None if self._wrong_names else mark
        return self._known.names

    def states(
        self,
        names: Mapping[DatasetAlias, DatasetId] | None = None,
        heads: Mapping[DatasetId, Multihash] | None = None,
    ) -> Mapping[DatasetAlias, ChainState]:
        """Return the state of every named dataset, or of some; only unknown ones are read."""
        if names is not None:
            return super().states(names, heads)
        now, states = self.heads() if heads is None else heads, self._known.states
        for id in [id for id, each in states.items() if now.get(id) != each.head]:
            del states[id]
        named = self.names()
        unknown = {alias: id for alias, id in named.items() if id not in states}
        states.update({each.dataset: each for each in super().states(unknown).values()})
        return {alias: states[id] for alias, id in named.items() if id in states}
