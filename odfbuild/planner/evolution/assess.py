"""Assessment of changes: their reach, the rules they meet, the datasets they affect.  Pure.

Datasets are taken in topological order.  One that did not change is looked at only if the columns
of something that it reads do, so that a large project costs what its changes cost.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from odfbuild.errors import Diagnostic
from odfbuild.odf.chain.schema import schema_in_force, schema_of
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DataField, DataSchema, MetadataEvent, SetDataSchema, SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange
from odfbuild.planner.evolution.columns.answers import EngineColumns
from odfbuild.planner.evolution.columns.compare import compare_schemas
from odfbuild.planner.evolution.columns.derive import Makes, data_schema, derive, makes_of
from odfbuild.planner.evolution.columns.resolve import UNTYPED, Resolver
from odfbuild.planner.evolution.gate import DEFAULT, Allowance, PlanGate
from odfbuild.planner.evolution.reach import Reaches, takes_all
from odfbuild.planner.evolution.rules.definitions import definition_hits, input_hits, retired_hits
from odfbuild.planner.evolution.rules.policy import restating_hits
from odfbuild.planner.evolution.rules.queries import class_hits, class_of_query, query_hits
from odfbuild.planner.evolution.rules.rule import class_of
from odfbuild.planner.evolution.rules.schemas import (
    AssessedColumns,
    refusals,
    schema_hits,
    unknown_hits,
    without_times,
)
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.evolution.rules.upstream import (
    UPSTREAM_COLUMN_REMOVED,
    InputChange,
    Upstream,
    united,
)
from odfbuild.planner.plan.changes import Assessment, ChangeClass, ColumnChange, Hit, SchemaChange
from odfbuild.planner.plan.policy import Policy
from odfbuild.planner.plan.remote_inputs import NONE_REMOTE, RemoteStates
from odfbuild.sql.query_class import QueryClass
from odfbuild.values import dataclass

TakenInputs: TypeAlias = Mapping[DatasetAlias, Mapping[DatasetId, ChainState]]
"""By reader, undeclared inputs that are defined again: as they were when it read them last."""

NONE_TAKEN: TakenInputs = {}

_GROWTH = ("added", "optional", "reordered")  # changes of columns that take nothing away


@dataclass(frozen=True, slots=True)
class Assessed:
    """What is said of a plan's changes.

    `assessments` are in topological order, retired datasets behind the declared ones; `refusals`
    what no policy can let pass, by dataset; `notes` what is to be said of the policy itself.
    """

    assessments: Mapping[DatasetAlias, Assessment]
    refusals: Mapping[DatasetAlias, tuple[Diagnostic, ...]]
    notes: tuple[Diagnostic, ...]


def assess(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    changes: Mapping[DatasetAlias, Sequence[EventChange]],
    *,
    policy: Policy,
    locked: Mapping[DatasetAlias, DataSchema] | None = None,
    engine: EngineColumns | None = None,
    gate: str = DEFAULT,
    allowed: Sequence[Allowance] = (),
    protect: bool = False,
    against: bool = False,
    considered: Collection[DatasetAlias] | None = None,
    full: bool = True,
    remote: RemoteStates = NONE_REMOTE,
    pulled: Collection[DatasetAlias] = (),
    taken: TakenInputs = NONE_TAKEN,
) -> Assessed:
    """Return the assessment of every dataset that changes, or whose inputs do in a way that counts.

    `declared` come in topological order, `current` under the names they have from now on;
    `changes` are the events to append (all of them, for a new dataset).  `locked` are data schemas
    that an engine gave for the definitions as declared, `engine` is asked about the queries that no
    text tells the columns of.  `against` says that `current` stands for
    another revision and not for chains.  `full` resolves the columns of new datasets, too, each of
    which takes a look at its query.  `remote` are inputs of repositories, which change as a pull
    brings them up to date; `pulled` are undeclared datasets that were never the project's own;
    `taken` are inputs that changed before, and whose readers did not take of them since.
    """
    here = {alias: each.here for alias, each in remote.items() if each.here is not None}
    current = {**current, **here}
    work = _Assessment(declared, current, changes, locked or {}, engine, against=against, full=full)
    work.changed_before(taken, remote)
    found = {**work.pulled(remote), **work.assessments()}
    own = {alias: state for alias, state in current.items() if alias not in {*remote, *pulled}}
    found |= retired_hits(declared, own, against=against)
    found = restating_hits(declared, current, changes, found, policy.gates.max_restated_rows)
    judge = PlanGate(policy, gate, tuple(allowed), protect)
    judged = {alias: replace(each, hits=judge.judge(each.hits)) for alias, each in found.items()}
    known = {*current, *(each.alias for each in declared)}
    return Assessed(judged, work.refusals, judge.notes(known, considered))


class _Assessment:
    """The state of one assessment."""

    def __init__(
        self,
        declared: Sequence[Declared],
        current: Mapping[DatasetAlias, ChainState],
        changes: Mapping[DatasetAlias, Sequence[EventChange]],
        locked: Mapping[DatasetAlias, DataSchema],
        engine: EngineColumns | None,
        *,
        against: bool,
        full: bool,
    ) -> None:
        self.declared = declared
        self.current = current
        self.changes = changes
        self.against = against
        self.full = full
        self.resolver = Resolver(current, locked, changes, engine)
        self.refusals: dict[DatasetAlias, tuple[Diagnostic, ...]] = {}
        self.moved: dict[DatasetAlias, tuple[ColumnChange, ...]] = {}
        self.lost: dict[DatasetAlias, dict[DatasetAlias, tuple[ColumnChange, ...]]] = {}
        self.reaches = Reaches(self.resolver)

    def assessments(self) -> dict[DatasetAlias, Assessment]:
        """Assess every declared dataset that there is something to say of."""
        found: dict[DatasetAlias, Assessment] = {}
        for each in self.declared:
            made = self._assess(each)
            if made is not None:
                found[each.alias] = made
        return self.reaches.with_affected(found, self.declared)

    def pulled(self, remote: RemoteStates) -> dict[DatasetAlias, Assessment]:
        """Assess the inputs whose columns are others once they are pulled.

        A chain keeps every column that it ever had; one that its definition made and no longer
        makes is gone for readers, as new rows lack it.
        """
        found: dict[DatasetAlias, Assessment] = {}
        for alias, each in remote.items():
            if each.here is None or each.incoming is None:
                continue
            stored, before = schema_in_force(each.state), self.resolver.before(alias).schema
            if stored is None or before is None:
                continue
            now = _read_from_now_on(stored, each.here, each.state)
            changes = compare_schemas(before, now)
            if not changes:
                continue
            self.resolver.put(alias, makes_of(each.state))
            self.resolver.declare(alias, now)
            self.moved[alias] = changes
            grows = all(each.kind in _GROWTH for each in changes)
            found[alias] = Assessment(
                change=ChangeClass.ADDITIVE if grows else ChangeClass.BREAKING,
                schema=SchemaChange(before, now, changes),
            )
        return found

    def changed_before(self, taken: TakenInputs, remote: RemoteStates) -> None:
        """Find what readers lose of inputs that changed before this plan.

        A column more is no loss, and a query that has run leaves it out.
        """
        for reader, inputs in taken.items():
            for id, before in inputs.items():
                alias = self.resolver.by_id.get(id)
                if alias is None:
                    continue
                now = self.current[alias]
                if alias in remote:
                    now = remote[alias].state
                was, stored = schema_in_force(before), schema_in_force(now)
                if was is None or stored is None:
                    continue
                schema = _read_from_now_on(stored, before, now)
                changes = compare_schemas(data_schema(was, before.vocab), schema)
                if any(change.kind not in _GROWTH for change in changes):
                    self.resolver.put(alias, makes_of(now))
                    self.resolver.declare(alias, schema)
                    self.lost.setdefault(reader, {})[alias] = changes

    def _assess(self, each: Declared) -> Assessment | None:
        changes = self.changes.get(each.alias, ())
        state = self.current.get(each.alias)
        subject = Subject(declared=each, state=state, changes=changes, against=self.against)
        if state is None:
            return self._assess_new(subject)
        own = list(definition_hits(subject, state)) if changes or self.against else []
        if state.kind is not each.snapshot.kind:
            self.reaches.note(subject, None, own)
            return Assessment(change=class_of(own), hits=tuple(own))
        inputs = self._moved_inputs(each, state)
        if not changes and not inputs:
            return Assessment(change=class_of(own), hits=tuple(own)) if own else None
        return self._assess_change(subject, state, own, inputs)

    def _assess_new(self, subject: Subject) -> Assessment:
        makes = subject.makes()
        self.resolver.put(subject.alias, makes)
        if not self.full:
            return Assessment(change=ChangeClass.ADDITIVE)
        after = self.resolver.after(subject.alias)
        query = class_of_query(makes, self._seen(makes))
        return Assessment(
            change=ChangeClass.ADDITIVE,
            schema=SchemaChange(None, after.schema, unknown=after.unknown),
            query=query,
        )

    def _assess_change(
        self,
        subject: Subject,
        state: ChainState,
        own: list[Hit],
        inputs: tuple[InputChange, ...],
    ) -> Assessment | None:
        old, new = makes_of(state), subject.makes()
        query = None
        schema = None
        if old.columns_key == new.columns_key and self._keeps_its_columns(subject, state, inputs):
            own += self._left_out(subject, new, inputs)
            inputs = ()
        if inputs or old.columns_key != new.columns_key or subject.find(SetDataSchema):
            self.resolver.put(subject.alias, new)
            declared = subject.find(SetDataSchema)
            if declared is not None:
                schema_set = data_schema(schema_of(declared[0]), new.vocab)
                self.resolver.declare(subject.alias, schema_set)
            columns, hits, query = self._columns(subject, state, old, new, inputs)
            own += hits
            schema = columns.change
            if subject.changes and not self.against:
                refused = tuple(refusals(subject, state, columns))
                self.refusals |= {subject.alias: refused} if refused else {}
            if columns.change.columns:
                self.moved[subject.alias] = columns.change.columns
            self.reaches.note(subject, columns, own)
        elif own:
            self.reaches.note(subject, None, own)
        if not own and not subject.changes:
            return None
        least = ChangeClass.METADATA if subject.changes else ChangeClass.NONE
        return Assessment(change=class_of(own, least), schema=schema, hits=tuple(own), query=query)

    def _keeps_its_columns(
        self, subject: Subject, state: ChainState, inputs: Sequence[InputChange]
    ) -> bool:
        """Tell whether a query has run and stays, so that `*` is what its inputs had until now."""
        return (
            bool(state.progress)
            and not self.against
            and subject.find(SetTransform) is None
            and not state.transform_is_new
            and all(change.kind == "added" for each in inputs for change in each.changes)
        )

    def _left_out(
        self, subject: Subject, makes: Makes, inputs: tuple[InputChange, ...]
    ) -> Iterator[Hit]:
        """Yield the columns that `*` would take in if the query were a new one."""
        upstream = self._upstream(subject, makes, inputs)
        before = self.resolver.before(subject.alias).schema
        if upstream is None or before is None or not subject.has_columns:
            return
        names = {each.name for each in before.fields}
        more = [each for each in upstream.made.columns or () if each.name not in names]
        fields = (
            DataField(each.name, UNTYPED if each.type is None else each.type) for each in more
        )
        _, passed = upstream.own(compare_schemas(DataSchema(()), DataSchema(tuple(fields))))
        for each in upstream.passed_hits(passed):
            yield replace(
                each,
                change=ChangeClass.NONE,
                message=f"{each.message} and is left out until the query changes",
                why="a query that has run keeps the columns that its inputs had then",
            )

    def _columns(
        self,
        subject: Subject,
        state: ChainState,
        old: Makes,
        new: Makes,
        inputs: tuple[InputChange, ...],
    ) -> tuple[AssessedColumns, list[Hit], QueryClass | None]:
        """Compare the columns, and say which rules their changes and those of the query meet.

        Columns that no row was written with yet may change as they like.
        """
        columns = self._compare_columns(subject)
        hits = list(input_hits(subject, state, self.resolver.by_id)) if subject.changes else []
        changes: Sequence[ColumnChange] = columns.change.columns
        upstream = self._upstream(subject, new, inputs)
        if upstream is not None:
            hits += upstream.removal_hits()
            changes, passed = upstream.own(changes)
            if subject.has_columns:
                hits += [*upstream.passed_hits(passed), *upstream.type_hits(passed)]
        unreadable = bool(subject.changes) and subject.rewrite.unreadable is not None
        told = unreadable or any(each.code == UPSTREAM_COLUMN_REMOVED.code for each in hits)
        if not told and subject.has_columns:
            hits += unknown_hits(subject, columns)
        if told:
            columns = replace(columns, untyped=())
        if old.vocab != new.vocab:
            columns, changes = without_times(columns, changes, old.vocab, new.vocab)
        if subject.has_columns:
            hits += schema_hits(subject, columns, changes)
        known = None if columns.change.unknown is not None else columns.change.columns
        hits += query_hits(subject, state, known)
        query = None
        if subject.find(SetTransform) is not None and not unreadable:
            query = class_of_query(new, self._seen(new))
            hits += class_hits(subject, class_of_query(old, self._seen_before(old)), query)
        return columns, hits, query

    def _compare_columns(self, subject: Subject) -> AssessedColumns:
        alias = subject.alias
        before, after = self.resolver.before(alias), self.resolver.after(alias)
        was, now = self.resolver.columns_before(alias), self.resolver.columns_after(alias)
        if before.schema is None or after.schema is None:
            why = after.unknown or f"before, {before.unknown}"
            change = SchemaChange(before.schema, after.schema, unknown=why)
        else:
            found = compare_schemas(
                before.schema,
                after.schema,
                sources_before=None if was is None else was.sources(),
                sources_after=None if now is None else now.sources(),
            )
            change = SchemaChange(before.schema, after.schema, found)
        return AssessedColumns(change=change, untyped=after.untyped, was=was, now=now)

    # Inputs

    def _moved_inputs(self, each: Declared, state: ChainState) -> tuple[InputChange, ...]:
        """Return the inputs whose columns change in a way that the query can notice."""
        transform = _transform_to_come(self.changes.get(each.alias, ()), state)
        moved = {**self.moved, **self.lost.get(each.alias, {})}
        if transform is None or not moved:
            return ()
        found = tuple(
            InputChange(name, alias, moved[alias])
            for name, alias in self.resolver.inputs(transform)
            if alias is not None and alias in moved
        )
        growth = all(change.kind == "added" for one in found for change in one.changes)
        return () if growth and not takes_all(transform) else found

    def _upstream(
        self, subject: Subject, makes: Makes, inputs: tuple[InputChange, ...]
    ) -> Upstream | None:
        if not inputs:
            return None
        seen = {
            name: None
            if alias is None
            else united(self.resolver.before(alias).schema, self.resolver.seen(alias))
            for name, alias in self.resolver.inputs(makes.transform)
        }
        return Upstream(subject, makes.steps, inputs, derive(makes, seen))

    def _seen(self, makes: Makes) -> Mapping[str, DataSchema | None]:
        return {
            name: None if alias is None else self.resolver.seen(alias)
            for name, alias in self.resolver.inputs(makes.transform)
        }

    def _seen_before(self, makes: Makes) -> Mapping[str, DataSchema | None]:
        return {
            name: None if alias is None else self.resolver.before(alias).schema
            for name, alias in self.resolver.inputs(makes.transform)
        }


def _read_from_now_on(stored: DataSchema, before: ChainState, now: ChainState) -> DataSchema:
    """Return the data columns of an input but for those that it no longer makes."""
    gone = _given_up(before, now)
    data = data_schema(stored, now.vocab)
    return DataSchema(tuple(column for column in data.fields if column.name not in gone))


def _given_up(here: ChainState, there: ChainState) -> frozenset[str]:
    """Return the columns that a definition made and the one after it does not, where both tell."""
    old, new = makes_of(here), makes_of(there)
    if old.columns_key == new.columns_key:
        return frozenset()
    was, now = derive(old, {}).columns, derive(new, {}).columns
    if was is None or now is None:
        return frozenset()
    return frozenset(each.name for each in was) - {each.name for each in now}


def _transform_to_come(changes: Sequence[EventChange], state: ChainState) -> SetTransform | None:
    events: Iterator[MetadataEvent] = (change.event for change in changes)
    return next((each for each in events if isinstance(each, SetTransform)), state.transform)
