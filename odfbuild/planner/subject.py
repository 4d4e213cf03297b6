"""A dataset under assessment: what it was, what it is declared as, the events between.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from odfbuild.errors import SourceSpan
from odfbuild.odf.chain_state import ChainState, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.derive import Makes, makes_of, makes_of_events
from odfbuild.planner.diff import Change
from odfbuild.planner.query import QueryStep
from odfbuild.planner.rewrite import Rewrite, compare_queries
from odfbuild.planner.statement import Place

__all__ = ["Subject"]

_E = TypeVar("_E", bound=MetadataEvent)


@dataclass(slots=True, kw_only=True)
class Subject:
    """One dataset; `state` is None of a new one, `changes` are empty where only inputs change."""

    declared: Declared
    state: ChainState | None
    changes: Sequence[Change]
    against: bool = False
    _rewrite: Rewrite | None = field(default=None, init=False)

    @property
    def alias(self) -> DatasetAlias:
        return self.declared.alias

    def find(self, kind: type[_E]) -> tuple[_E, int] | None:
        """Return the change that is an event of some kind, and where that is declared."""
        for event, index in self.of(kind):
            return event, index
        return None

    def of(self, kind: type[_E]) -> Iterator[tuple[_E, int]]:
        """Yield the declared events of some kind among the changes, and where they stand."""
        for change in self.changes:
            if isinstance(change.event, kind) and change.index is not None:
                yield change.event, change.index

    def makes(self) -> Makes:
        """Return what makes the columns from now on."""
        if self.state is None:
            return makes_of_events(
                self.declared.snapshot.kind, [each.event for each in self.changes]
            )
        makes = makes_of(self.state)
        for event in (change.event for change in self.changes):
            match event:
                case SetVocab():
                    makes = replace(makes, vocab=vocabulary(event))
                case SetPollingSource() | AddPushSource():
                    makes = replace(makes, source=event)
                case SetTransform():
                    makes = replace(makes, transform=event)
                case DisablePollingSource() | DisablePushSource():
                    pass  # the columns stay
                case _:
                    pass
        return makes

    @property
    def rewrite(self) -> Rewrite:
        """Return how the query changed, of the transform or of the preprocess step."""
        if self._rewrite is None:
            before = () if self.state is None else makes_of(self.state).steps
            self._rewrite = compare_queries(before, self.makes().steps, self._renamed_inputs())
        return self._rewrite

    @property
    def renames_inputs(self) -> bool:
        """Say whether the query calls an input by another name now."""
        return bool(self._renamed_inputs())

    def _renamed_inputs(self) -> dict[str, str]:
        found = self.find(SetTransform)
        if found is None or self.state is None or self.state.transform is None:
            return {}
        was = {each.dataset_ref: each.alias for each in self.state.transform.inputs}
        return {
            old: each.alias
            for each in found[0].inputs
            if each.alias is not None and (old := was.get(each.dataset_ref)) is not None
            if old != each.alias
        }

    # Places

    def span(self, *path: str | int) -> SourceSpan:
        """Return where a value of the declaration stands."""
        return self.declared.span(path)

    def query_path(self) -> tuple[str | int, ...] | None:
        """Return where the query is declared: in the transform, or as preprocess step."""
        for index, event in enumerate(self.declared.snapshot.metadata):
            if isinstance(event, SetTransform):
                return ("metadata", index, "transform")
            if isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
                return ("metadata", index, "preprocess")
        return None

    def query_span(
        self, steps: Sequence[QueryStep], at: tuple[int, Place] | None = None
    ) -> SourceSpan:
        """Return where the query stands, or a place in one of its steps."""
        path = self.query_path()
        if path is None:
            return self.declared.span()
        if at is None or at[0] >= len(steps):
            return self.declared.span(path)
        step, place = at
        written = getattr(self.declared.written.metadata[int(path[1])], str(path[2]))
        single = written.query is not None
        inside = (*path, "query") if single else (*path, "queries", step, "query")
        return self.declared.span_inside(inside, steps[step].text, place.start, place.length)

    def read_path(self) -> tuple[str | int, ...] | None:
        """Return where the read step is declared whose schema gives the columns."""
        for index, event in enumerate(self.declared.snapshot.metadata):
            if isinstance(event, SetPollingSource | AddPushSource):
                return ("metadata", index, "read")
        return None
