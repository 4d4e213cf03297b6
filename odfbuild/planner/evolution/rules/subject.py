"""A dataset under assessment: what it was, what it is declared as, the events between.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import TypeVar

from odfbuild.errors import SourceSpan
from odfbuild.odf.chain.state import ChainState, vocabulary
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
from odfbuild.planner.diff import EventChange
from odfbuild.planner.evolution.columns.derive import Makes, makes_of, makes_of_events
from odfbuild.planner.evolution.columns.query_diff import QueryRewrite, compare_queries
from odfbuild.planner.plan.policy import OnQueryChange
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.steps import QueryStep
from odfbuild.values import dataclass

_E = TypeVar("_E", bound=MetadataEvent)


@dataclass(slots=True, kw_only=True)
class Subject:
    """One dataset; `state` is None of a new one, `changes` are empty where only inputs change."""

    declared: Declared
    state: ChainState | None
    changes: Sequence[EventChange]
    against: bool = False
    _rewrite: QueryRewrite | None = field(default=None, init=False)

    @property
    def alias(self) -> DatasetAlias:
        return self.declared.alias

    @property
    def restates(self) -> bool:
        """Say whether a changed query is to correct all that was written before."""
        return self.declared.traits.on_query_change is OnQueryChange.RESTATE

    @property
    def has_columns(self) -> bool:
        """Say whether rows may stand that were written by the definition in force."""
        return self.against or (self.state is not None and self.state.schema is not None)

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
    def rewrite(self) -> QueryRewrite:
        """Return how the query changed, of the transform or of the preprocess step."""
        if self._rewrite is None:
            before = () if self.state is None else makes_of(self.state).steps
            self._rewrite = compare_queries(before, self.makes().steps, self._renamed_inputs())
        return self._rewrite

    @property
    def renames_inputs(self) -> bool:
        """Say whether the query uses another name for an input now."""
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
        self, steps: Sequence[QueryStep], at: tuple[int, TextPlace] | None = None
    ) -> SourceSpan:
        """Return a place in a step of the query, by default the first line that changed or counts.

        Without steps, return where the transform stands.
        """
        path = self.query_path()
        if path is None or not steps:
            return self.declared.span(path or ())
        step, place = self._first_line(steps) if at is None or at[0] >= len(steps) else at
        written = getattr(self.declared.written.metadata[int(path[1])], str(path[2]))
        single = written.query is not None
        inside = (*path, "query") if single else (*path, "queries", step, "query")
        return self.declared.span_inside(inside, steps[step].text, place.start, place.length)

    def query_key_span(self, *names: str) -> SourceSpan:
        """Return where the first of some keys of the transform that is written has its value."""
        path = self.query_path()
        if path is None:
            return self.declared.span()
        whole = self.declared.span(path)
        spans = (self.declared.span((*path, name)) for name in names)
        return next((span for span in spans if span != whole), whole)

    def _first_line(self, steps: Sequence[QueryStep]) -> tuple[int, TextPlace]:
        """Return the first line of the step that differs from the one in force, or of the last."""
        before = () if self.state is None else makes_of(self.state).steps
        was = [*(each.text for each in before), *([None] * len(steps))]
        changed = (
            n for n, (old, new) in enumerate(zip(was, steps, strict=False)) if old != new.text
        )
        step = next(changed, len(steps) - 1)
        text = steps[step].text
        start = len(text) - len(text.lstrip())
        return step, TextPlace.of(text, start, len(text[start:].partition("\n")[0].rstrip()))

    def read_path(self) -> tuple[str | int, ...] | None:
        """Return where the read step is declared whose schema gives the columns."""
        for index, event in enumerate(self.declared.snapshot.metadata):
            if isinstance(event, SetPollingSource | AddPushSource):
                return ("metadata", index, "read")
        return None
