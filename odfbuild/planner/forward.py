"""Whether a new query may go on from what the one before it wrote.  Pure.

Without `on_query_change: restate` what was written stays, and the new query rules from the next
step on.  That is sound for queries that look at one row at a time, as long as no older row of their
inputs is taken back; and where steps work key by key and the result held the same key before, for
then a step takes back what was written of a key that it touches.  Otherwise the result would be of
neither query.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.chain import ChainState
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.events import (
    DataSchema,
    MergeStrategyChangelogStream,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import Change
from odfbuild.planner.restating import asks_to_restate

__all__ = ["forward_problems"]

_CORRECTING = (MergeStrategySnapshot, MergeStrategyUpsertStream, MergeStrategyChangelogStream)

States = Mapping[DatasetAlias | DatasetId, ChainState]


@dataclass(frozen=True, slots=True)
class _Key:
    """The key of a query: by each column of the result, what it is in every input that is read."""

    columns: Mapping[str, Mapping[DatasetAlias | DatasetId, str]]

    def is_that_of(self, other: "_Key") -> bool:
        """Say whether two queries keep their results by the same columns."""
        return self.columns.keys() == other.columns.keys() and all(
            sources.get(dataset, column) == column
            for name, found in self.columns.items()
            for sources in [other.columns[name]]
            for dataset, column in found.items()
        )

    def __str__(self) -> str:
        return ", ".join(sorted(self.columns))


def forward_problems(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    changes: Mapping[DatasetAlias, tuple[Change, ...]],
) -> Iterator[tuple[DatasetAlias, Diagnostic]]:
    """Yield of each dataset with rows the new query that would have to restate them, or may.

    The first are errors, the second warnings.
    """
    by_id: dict[DatasetAlias | DatasetId, ChainState] = {}
    correcting = _Correcting(by_id)
    for each in declared:
        state = current.get(each.alias)
        if state is None or state.transform is None or not state.has_data:
            continue
        for change in changes.get(each.alias, ()):
            event = change.event
            if not isinstance(event, SetTransform) or asks_to_restate(event):
                continue
            if not by_id:
                by_id |= {known.dataset: known for known in current.values()}
            why = _problem(state.transform, event, by_id)
            if why is not None:
                yield each.alias, _refusal(each, change, why)
            elif (source := correcting.input_of(event)) is not None:
                yield each.alias, _warning(each, change, source)


def _refusal(each: Declared, change: Change, why: str) -> Diagnostic:
    return Diagnostic(
        code="needs-restate",
        what=f"it cannot go on from its rows without on_query_change: restate: {why}",
        why="rows of the query before stay as they are unless the project asks to have them "
        "corrected",
        fix="set on_query_change: restate in defaults of odfbuild.yaml, or declare the dataset "
        "under another name",
        span=each.span(("metadata", change.index or 0)),
    )


def _warning(each: Declared, change: Change, source: str) -> Diagnostic:
    return Diagnostic(
        code="needs-restate",
        what=f"{each.alias} will stop once {source} takes an older row back",
        why="the query looks at one row at a time and takes back what it would make of that row "
        "today, while the dataset holds what the query before made of it",
        fix="set on_query_change: restate in defaults of odfbuild.yaml if older rows are corrected",
        span=each.span(("metadata", change.index or 0)),
        level=Level.WARNING,
    )


class _Correcting:
    """Which datasets may take back rows that they had; what is known of one is kept."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._known: dict[DatasetAlias | DatasetId, bool] = {}

    def input_of(self, transform: SetTransform) -> str | None:
        """Return the input of a query row by row of which older rows may go, by its name there."""
        from odfbuild.planner.sql.query import examine, steps_of

        facts = examine(steps_of(transform.transform), _names(transform))
        if not facts.is_linear or facts.names_op:
            return None
        return next((_name(each) for each in transform.inputs if self._reaches(each)), None)

    def _reaches(self, source: TransformInput) -> bool:
        seen, left = set(), [source.dataset_ref]
        while left:
            ref = left.pop()
            state = self._states.get(ref)
            if state is None or ref in seen:
                continue
            seen.add(ref)
            if ref not in self._known:
                self._known[ref] = _corrects(state)
            if self._known[ref]:
                return True
            if state.transform is not None:
                left += [each.dataset_ref for each in state.transform.inputs]
        return False


def _corrects(state: ChainState) -> bool:
    """Say whether a dataset takes rows back for itself, not only where its inputs do."""
    if state.transform is not None:
        return is_opaque(state.transform.transform) or _kind(state.transform) != "linear"
    merges = [source.merge for source in state.push.values()]
    merges += [] if state.polling is None else [state.polling.merge]
    return any(isinstance(merge, _CORRECTING) for merge in merges)


def _problem(old: SetTransform, new: SetTransform, states: States) -> str | None:
    """Return why the rows of one query and those of another cannot be told apart."""
    if is_opaque(old.transform):
        return "the query in force belongs to a newer version"
    was, now = _kind(old), _kind(new)
    if was == now == "linear":
        return None
    if now == "linear":
        return (
            f"it looks at one row at a time, and rows were made by {was}: none of them could be "
            "taken back"
        )
    key = _key(new, states)
    if isinstance(key, str):
        return key
    held = None if was == "linear" else _key(old, states)
    if not isinstance(held, _Key):
        return f"it works key by key, by {key}, and the rows so far were not made so"
    if not key.is_that_of(held):
        if key.columns.keys() == held.columns.keys():
            return f"it takes {key}, by which it works, from other columns than so far"
        return f"it works by {key}, and the rows so far were made by {held}"
    return None


def _kind(transform: SetTransform) -> str:
    from odfbuild.planner.sql.query import examine, steps_of

    return examine(steps_of(transform.transform), _names(transform)).kind


def _key(transform: SetTransform, states: States) -> _Key | str:
    """Return the key by which steps work, or why they look at everything."""
    from odfbuild.planner.sql.incremental import query_class
    from odfbuild.planner.sql.key_columns import key_columns
    from odfbuild.planner.sql.query import examine, steps_of
    from odfbuild.planner.sql.waiting import waits

    steps = steps_of(transform.transform)
    if waits(steps):
        return "rows appear when the watermark reaches them, also those of keys without new rows"
    read = examine(steps, _names(transform)).inputs
    sources = {_name(each): each.dataset_ref for each in transform.inputs if _name(each) in read}
    known = dict(_seen(sources, states))
    found = key_columns(steps, known)
    if found is None:
        because = query_class(steps, known).because
        return f"each step looks at everything{f', because of {because}' if because else ''}"
    if found.outputs is None:
        return "its result does not hold the key by which it works"
    return _Key(
        {
            name: {
                sources[alias]: columns[number]
                for alias, columns in found.inputs.items()
                if alias in sources
            }
            for number, name in enumerate(found.outputs)
        }
    )


def _seen(
    sources: Mapping[str, DatasetAlias | DatasetId], states: States
) -> Iterator[tuple[str, DataSchema]]:
    """Yield the columns of the inputs as queries see them, of those that have some."""
    for name, ref in sources.items():
        state = states.get(ref)
        schema = None if state is None else schema_in_force(state)
        if state is not None and schema is not None:
            vocab = state.vocab
            hidden = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
            fields = tuple(field for field in schema.fields if field.name not in hidden)
            yield name, replace(schema, fields=fields)


def _names(transform: SetTransform) -> tuple[str, ...]:
    return tuple(map(_name, transform.inputs))


def _name(each: TransformInput) -> str:
    return each.alias or str(each.dataset_ref)
