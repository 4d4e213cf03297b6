"""The data schema of each dataset before and after a change, worked out when asked for.  Pure.

Before: what is in the chain, else what the definition in force makes.  After: the same, but where a
definition changed, or the schema of something it reads; only then a query is looked at.  Columns
that both definitions make in the same way keep the type that the chain has: the engine knows best.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, input_name
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DatasetVocabulary,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeOption,
    DataTypeStruct,
    SetTransform,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.types import inner, is_optional, optional
from odfbuild.planner.evolution.columns.answers import EngineColumns, derive_with
from odfbuild.planner.evolution.columns.derive import (
    DerivedColumn,
    DerivedColumns,
    Makes,
    data_schema,
    makes_of,
)
from odfbuild.planner.evolution.columns.query_diff import QueryRewrite, compare_queries
from odfbuild.values import dataclass

UNTYPED: DataType = DataTypeOption(DataTypeNull())


@dataclass(frozen=True, slots=True)
class Resolved:
    """The data columns of a dataset; None if they are not known, then `unknown` says why.

    Both are None of a dataset that is not there.  `untyped` are columns whose type is not known:
    they have the one from before, or UNTYPED.
    """

    schema: DataSchema | None
    unknown: str | None = None
    untyped: tuple[str, ...] = ()


class Resolver:
    """Works out schemas lazily and once; `changed` are the datasets whose definition changes.

    `locked` are the answers of an engine for the definitions as they are declared; `engine`
    is asked about queries whose columns no text tells, as they are and as they were.
    """

    def __init__(
        self,
        current: Mapping[DatasetAlias, ChainState],
        locked: Mapping[DatasetAlias, DataSchema],
        changed: Collection[DatasetAlias] = (),
        engine: EngineColumns | None = None,
    ) -> None:
        self.current = current
        self.by_id = {state.dataset: alias for alias, state in current.items()}
        self.parsed: list[DatasetAlias] = []
        self._locked = locked
        self._changed = frozenset(changed)
        self._engine = engine
        self._new: dict[DatasetAlias, Makes] = {}
        self._before: dict[DatasetAlias, Resolved] = {}
        self._after: dict[DatasetAlias, Resolved] = {}
        self._made_before: dict[DatasetAlias, DerivedColumns] = {}
        self._made_after: dict[DatasetAlias, DerivedColumns] = {}

    def put(self, alias: DatasetAlias, makes: Makes) -> None:
        """Say how a dataset will be made: one that is new, changed, or reads what changed."""
        self._new[alias] = makes

    def declare(self, alias: DatasetAlias, schema: DataSchema) -> None:
        """Say which data columns a dataset will have: its definition sets them."""
        self._after[alias] = Resolved(schema)

    def before(self, alias: DatasetAlias) -> Resolved:
        """Return the data columns before the change."""
        _settle(alias, self._before, self._needed_before, self._resolve_before)
        return self._before[alias]

    def after(self, alias: DatasetAlias) -> Resolved:
        """Return the data columns after it."""
        if alias not in self._new:
            return self.before(alias)
        _settle(alias, self._after, self._needed_after, self._resolve_after)
        return self._after[alias]

    def seen(self, alias: DatasetAlias) -> DataSchema | None:
        """Return the columns that readers will see; those from before while others are unknown."""
        after = self.after(alias).schema
        return self.before(alias).schema if after is None else after

    def columns_before(self, alias: DatasetAlias) -> DerivedColumns | None:
        """Return what the definition in force makes; None of a dataset that is not there."""
        state = self.current.get(alias)
        if state is None:
            return None
        if alias not in self._made_before:
            seen = self._inputs(state.transform, lambda each: self.before(each).schema)
            self._made_before[alias] = self._derive(alias, makes_of(state), seen, self._old_vocab)
        return self._made_before[alias]

    def columns_after(self, alias: DatasetAlias) -> DerivedColumns | None:
        """Return what the new definition makes; of one that stays as it is, what it made."""
        makes = self._new.get(alias)
        if makes is None:
            return self.columns_before(alias)
        if alias not in self._made_after:
            seen = self._inputs(makes.transform, self.seen)
            self._made_after[alias] = self._derive(alias, makes, seen, self._new_vocab)
        return self._made_after[alias]

    def inputs(self, transform: SetTransform | None) -> tuple[tuple[str, DatasetAlias | None], ...]:
        """Return the names that a query uses for its inputs, and the datasets; None if unknown."""
        if transform is None:
            return ()
        return tuple((input_name(each), self._alias(each.dataset_ref)) for each in transform.inputs)

    def _alias(self, ref: DatasetAlias | DatasetId) -> DatasetAlias | None:
        return ref if isinstance(ref, DatasetAlias) else self.by_id.get(ref)

    def _inputs(
        self,
        transform: SetTransform | None,
        schema: Callable[[DatasetAlias], DataSchema | None],
    ) -> Mapping[str, DataSchema | None]:
        return {
            name: None if alias is None else schema(alias) for name, alias in self.inputs(transform)
        }

    def _derive(
        self,
        alias: DatasetAlias,
        makes: Makes,
        seen: Mapping[str, DataSchema | None],
        vocab: Callable[[DatasetAlias], DatasetVocabulary | None],
    ) -> DerivedColumns:
        if makes.steps:
            self.parsed.append(alias)
        return derive_with(self._engine, makes, seen, self._vocabularies(makes, vocab))

    def _vocabularies(
        self, makes: Makes, vocab: Callable[[DatasetAlias], DatasetVocabulary | None]
    ) -> Mapping[str, DatasetVocabulary | None]:
        """Return the names of the system columns of the inputs of a query."""
        inputs = self.inputs(makes.transform)
        return {name: None if alias is None else vocab(alias) for name, alias in inputs}

    def _old_vocab(self, alias: DatasetAlias) -> DatasetVocabulary | None:
        state = self.current.get(alias)
        return None if state is None else state.vocab

    def _new_vocab(self, alias: DatasetAlias) -> DatasetVocabulary | None:
        makes = self._new.get(alias)
        return self._old_vocab(alias) if makes is None else makes.vocab

    def _needed_before(self, alias: DatasetAlias) -> Sequence[DatasetAlias]:
        state = self.current.get(alias)
        if state is None or not self._derives(alias, state):
            return ()
        return [each for _, each in self.inputs(state.transform) if each is not None]

    def _derives(self, alias: DatasetAlias, state: ChainState) -> bool:
        """Tell whether the definition in force says more than the chain: it did not run yet."""
        if state.schema is None:
            return alias not in self._locked or alias in self._changed
        return state.transform_is_new or (state.polling is not None and not makes_of(state).steps)

    def _resolve_before(self, alias: DatasetAlias) -> Resolved:
        state = self.current.get(alias)
        if state is None:
            return Resolved(None)
        stored = schema_in_force(state)
        known = None if stored is None else data_schema(stored, state.vocab)
        if not self._derives(alias, state):
            return Resolved(self._locked.get(alias) if known is None else known)
        made = self.columns_before(alias)
        assert made is not None  # noqa: S101 - it is there
        if known is not None:
            return Resolved(_grown(known, made))
        if made.columns is None:
            return Resolved(None, made.unknown)
        return Resolved(DataSchema(tuple(map(_field, made.columns))))

    def _needed_after(self, alias: DatasetAlias) -> Sequence[DatasetAlias]:
        inputs = self.inputs(self._new[alias].transform)
        return [each for _, each in inputs if each is not None and each in self._new]

    def _resolve_after(self, alias: DatasetAlias) -> Resolved:
        if alias in self._locked:
            return Resolved(self._locked[alias])
        now = self.columns_after(alias)
        assert now is not None  # noqa: S101 - it was put
        if now.columns is None:
            return Resolved(None, now.unknown)
        was = self.columns_before(alias)
        before = self.before(alias).schema
        if was is None or before is None:
            return Resolved(DataSchema(tuple(map(_field, now.columns))))
        return _Rebase(before, was, now).resolved()


_CIRCLE = Resolved(None, "the datasets read each other in a cycle")


def _settle(
    alias: DatasetAlias,
    known: dict[DatasetAlias, Resolved],
    needed: Callable[[DatasetAlias], Sequence[DatasetAlias]],
    resolve: Callable[[DatasetAlias], Resolved],
) -> None:
    """Resolve what a dataset needs before itself: without recursion, as chains can be deep."""
    waiting, entered = [alias], set[DatasetAlias]()
    while waiting:
        top = waiting[-1]
        missing = [] if top in known or top in entered else needed(top)
        entered.add(top)
        missing = [each for each in missing if each not in known and each not in entered]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if top not in known:
            known[top] = _CIRCLE  # until it is resolved
            known[top] = resolve(top)


def _field(made: DerivedColumn) -> DataField:
    return DataField(made.name, UNTYPED if made.type is None else made.type)


def _grown(stored: DataSchema, made: DerivedColumns) -> DataSchema:
    """Add the columns that a definition makes and no row has yet: they will be optional."""
    names = {each.name for each in stored.fields}
    new = [_field(each) for each in made.columns or () if each.name not in names]
    if not new:
        return stored
    return DataSchema((*stored.fields, *(replace(f, type=optional(f.type)) for f in new)))


class _Rebase:
    """Carries the difference of two definitions over to the columns that are stored."""

    def __init__(self, stored: DataSchema, was: DerivedColumns, now: DerivedColumns) -> None:
        self.stored = {each.name: each.type for each in stored.fields}
        self.was = was
        self.now = now
        self.rewrite: QueryRewrite = compare_queries(was.steps, now.steps)
        self.untyped: list[str] = []

    def resolved(self) -> Resolved:
        """Return the columns after the change; those given up long ago stay what they are."""
        made = {each.name: self._type(each) for each in self.now.columns or ()}
        left = {
            name: data_type
            for name, data_type in self.stored.items()
            if name not in made and self.was.columns is not None and not self.was.column(name)
        }
        was = None if self.was.columns is None else [each.name for each in self.was.columns]
        names = _names_in_order(list(self.stored), was, list(made), list(left))
        fields = tuple(DataField(name, {**made, **left}[name]) for name in names)
        return Resolved(DataSchema(fields), untyped=tuple(self.untyped))

    def _type(self, new: DerivedColumn) -> DataType:
        stored, old = self.stored.get(new.name), self.was.column(new.name)
        if stored is None:
            return UNTYPED if new.type is None else new.type
        if inner(stored) == inner(UNTYPED) or new.type is None:
            if not self._is_kept(new):
                self.untyped.append(new.name)
            return stored
        if old is None or old.type is None:
            return _like(stored, new.type) if self.now.query is not None else new.type
        return _rebased_type(stored, old.type, new.type)

    def _is_kept(self, column: DerivedColumn) -> bool:
        """Tell whether a column is made in the same way of columns that have the same types."""
        kept = self.rewrite.form or column.name in self.rewrite.kept
        old = self.was.column(column.name)
        if not kept or old is None or old.sources != column.sources:
            return False
        return all(
            _source_type(self.was, ref.input, ref.column)
            == _source_type(self.now, ref.input, ref.column)
            for ref in column.sources
        )


def _source_type(made: DerivedColumns, name: str, column: str) -> DataType | None:
    schema = made.inputs.get(name)
    fields = () if schema is None else schema.fields
    return next((each.type for each in fields if each.name == column), None)


def _like(stored: DataType, new: DataType) -> DataType:
    return optional(inner(new)) if is_optional(stored) else inner(new)


def _rebased_type(stored: DataType, old: DataType, new: DataType) -> DataType:
    """Return the new type, but as it is stored where the definitions agree."""
    if old == new:
        return stored
    value = _rebased_value(inner(stored), inner(old), inner(new))
    same = is_optional(old) == is_optional(new)
    return _like(stored if same else new, value)


def _rebased_value(stored: DataType, old: DataType, new: DataType) -> DataType:
    match stored, old, new:
        case _ if old == new:
            return stored
        case DataTypeStruct(), DataTypeStruct(), DataTypeStruct():
            return DataTypeStruct(_rebased_fields(stored, old, new))
        case DataTypeList(), DataTypeList(), DataTypeList():
            item = _rebased_type(stored.item_type, old.item_type, new.item_type)
            return replace(new, item_type=item)
        case DataTypeMap(), DataTypeMap(), DataTypeMap():
            key = _rebased_type(stored.key_type, old.key_type, new.key_type)
            value = _rebased_type(stored.value_type, old.value_type, new.value_type)
            return replace(new, key_type=key, value_type=value)
    return new


def _rebased_fields(
    stored: DataTypeStruct, old: DataTypeStruct, new: DataTypeStruct
) -> tuple[DataField, ...]:
    kept = {each.name: each.type for each in stored.fields}
    was = {each.name: each.type for each in old.fields}
    made = {
        each.name: replace(each, type=_rebased_type(kept[each.name], was[each.name], each.type))
        if each.name in kept and each.name in was
        else each
        for each in new.fields
    }
    return tuple(made[name] for name in _names_in_order(list(kept), list(was), list(made), []))


def _names_in_order(
    stored: Sequence[str], was: Sequence[str] | None, now: Sequence[str], left: Sequence[str]
) -> list[str]:
    """Return names in the order in which they are stored, unless the definition changed its own."""
    both = [name for name in was or () if name in now]
    if was is None or both != [name for name in now if name in was]:
        return [*now, *left]
    known = [name for name in stored if name in now or name in left]
    return [*known, *(name for name in now if name not in known)]
