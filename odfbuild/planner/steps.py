"""Steps of a plan: what is appended, what runs, in which order, and why.  Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetKind, SetPollingSource, SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange
from odfbuild.planner.diff.restate import asks_to_restate, restates
from odfbuild.planner.plan import Append, Ingest, Move, Pull, Step, Transform, Work
from odfbuild.planner.plan.policy import RenamedDataset, watermark_at
from odfbuild.planner.plan.reasons import (
    DefinitionChanged,
    FilesPassedOver,
    FirstRun,
    HistoryRestated,
    InputMayAdvance,
    InputRewritten,
    NotYetCreated,
    NotYetPulled,
    Reason,
    Renamed,
    RepositoryAdvanced,
    RepositoryToAsk,
    SourceHasNews,
    SourceToAsk,
    WatermarkDue,
)
from odfbuild.planner.plan.remote_inputs import RemoteState, repository_of
from odfbuild.planner.staleness import InputNow, records, why_stale
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class ToAsk:
    """A source that only a fetch can look at; `origin` is printable and holds no secret."""

    origin: str


@dataclass(frozen=True, slots=True)
class RereadFiles:
    """Files that a rule, `changed` or `late`, has read, in that order."""

    rule: str
    names: tuple[str, ...]


SourceLook = tuple[str, ...] | ToAsk


@dataclass(slots=True)
class Steps:
    """Builds the steps of one plan, dataset by dataset, inputs before what reads them.

    `rewritten` has the inputs of datasets that no longer hold what was read from them, `disabled`
    the datasets whose sources are not used, `reread` files that a rule has read, `at_rest` those
    whose next step changes nothing by what is there, `now` the time from which ages count.
    """

    current: Mapping[DatasetAlias, ChainState]
    by_id: Mapping[DatasetId, DatasetAlias]
    rewritten: Mapping[DatasetAlias, Collection[DatasetId]] = field(default_factory=dict)
    disabled: Collection[DatasetAlias] = ()
    reread: Mapping[DatasetAlias, RereadFiles] = field(default_factory=dict)
    at_rest: Collection[DatasetId] = ()
    now: Timestamp | None = None
    steps: list[Step] = field(default_factory=list)
    last_step: dict[DatasetAlias, str] = field(default_factory=dict)
    created_by: dict[DatasetAlias, str] = field(default_factory=dict)
    moves: set[DatasetAlias] = field(default_factory=set)
    restating: set[DatasetAlias] = field(default_factory=set)

    def pull(self, each: RemoteState) -> None:
        """Bring a dataset of a repository here, or up to date, before what reads it."""
        origin, repository = str(each.ref), each.repository
        if repository_of(each.ref) is not None:
            repository = None
        reason: Reason
        if (news := each.incoming) is not None:
            reason = NotYetPulled(origin) if each.here is None else RepositoryAdvanced(origin)
            work = Pull(
                each.id, origin, repository, news.head, news.blocks, news.records, news.bytes
            )
        elif each.is_asked:
            reason, work = RepositoryToAsk(origin), Pull(each.id, origin, repository)
        else:
            return
        id = self._add(each.alias, "pull", work, (), (reason,))
        if each.incoming is None:  # else what is new is known, and so is who has to read it
            self.moves.add(each.alias)
        if each.here is None:
            self.created_by[each.alias] = id

    def move(self, each: Declared, moved: RenamedDataset) -> None:
        """Give a dataset its new name before anything else is done to it."""
        self._add(each.alias, "move", Move(moved.old), (), (Renamed(moved.old, str(moved.span)),))

    def append(self, each: Declared, changes: Sequence[EventChange]) -> None:
        """Append the events that a definition asks for, creating the dataset if need be."""
        state = self.current.get(each.alias)
        if state is not None and not changes:
            return
        if any(asks_to_restate(change.event) for change in changes):
            self.restating.add(each.alias)
        creates = each.snapshot.kind if state is None else None
        work = Append(creates, tuple(change.event for change in changes))
        after = self._inputs_created(work)
        id = self._add(each.alias, "append", work, after, _why_append(each, state, changes))
        if creates is not None:
            self.created_by[each.alias] = id

    def run(self, each: Declared, look: SourceLook) -> None:
        """Ingest or transform, if there is or may be something new."""
        state = self.current.get(each.alias)
        if each.snapshot.kind is DatasetKind.ROOT:
            self._ingest(each, state, look)
        else:
            self._transform(each, state)

    def _ingest(self, each: Declared, state: ChainState | None, look: SourceLook) -> None:
        if each.alias in self.disabled:
            return
        due = self._watermark_due(each, state)
        polls = any(isinstance(event, SetPollingSource) for event in each.snapshot.metadata)
        reasons: list[Reason] = []
        if not polls:
            look = ()
        elif state is None or (state.last_offset is None and not state.source_state):
            reasons.append(FirstRun())
        reread = self.reread.get(each.alias) if polls else None
        if reread is not None:
            reasons.append(FilesPassedOver(reread.rule, reread.names))
        if isinstance(look, ToAsk):
            reasons.append(SourceToAsk(look.origin))
        elif look:
            reasons.append(SourceHasNews(look))
        has_rows = state is not None and state.last_offset is not None
        if due is not None and (reasons or has_rows):
            reasons.append(due)
        if reasons:
            work = Ingest(each.traits.ingest, None if due is None else due.after)
            self._add(each.alias, "ingest", work, (), tuple(reasons))
            self.moves.add(each.alias)

    def _watermark_due(self, each: Declared, state: ChainState | None) -> WatermarkDue | None:
        """Return where the watermark of a root is to be moved by its age, None if it is there."""
        age = each.traits.ingest.watermark_age
        if age is None or self.now is None:
            return None
        before = None if state is None else state.watermark
        after = watermark_at(age, self.now)
        return WatermarkDue(before, after) if before is None or before < after else None

    def _transform(self, each: Declared, state: ChainState | None) -> None:
        transform = next(
            (event for event in each.snapshot.metadata if isinstance(event, SetTransform)), None
        )
        if transform is None:
            return
        inputs = [(source.alias, self._alias_of(source.dataset_ref)) for source in transform.inputs]
        named = [alias for _, alias in inputs if isinstance(alias, DatasetAlias)]
        lost = tuple(self._rewritten(each.alias, inputs))
        if lost:  # it stays as it is, and so does what reads it
            refs = tuple(source.dataset_ref for source in transform.inputs)
            self._add(each.alias, "transform", Transform(refs), (), lost)
            return
        rests = state is not None and state.dataset in self.at_rest
        is_same = rests and each.alias not in self.last_step
        reasons: list[Reason] = [] if is_same else [*self._why_stale(state, inputs)]
        if state is not None and (each.alias in self.restating or restates(state)):
            reasons.insert(0, HistoryRestated(records(state.last_offset)))
        reasons += [InputMayAdvance(alias) for alias in named if alias in self.moves]
        if not reasons:
            return
        after = tuple(self.last_step[alias] for alias in named if alias in self.last_step)
        refs = tuple(source.dataset_ref for source in transform.inputs)
        self._add(each.alias, "transform", Transform(refs), after, tuple(reasons))
        self.moves.add(each.alias)

    def _rewritten(
        self,
        dataset: DatasetAlias,
        inputs: Sequence[tuple[str | None, DatasetAlias | DatasetId]],
    ) -> Iterator[InputRewritten]:
        gone = self.rewritten.get(dataset, ())
        for name, alias in inputs:
            known = self.current.get(alias) if isinstance(alias, DatasetAlias) else None
            if known is not None and known.dataset in gone:
                yield InputRewritten(known.dataset, name or str(alias))

    def _why_stale(
        self,
        state: ChainState | None,
        inputs: Sequence[tuple[str | None, DatasetAlias | DatasetId]],
    ) -> Sequence[Reason]:
        if state is None:
            return (FirstRun(),)
        now = []
        for name, alias in inputs:
            known = self.current.get(alias) if isinstance(alias, DatasetAlias) else None
            if known is None:
                return ()
            now.append(InputNow(name or str(alias), known))
        return why_stale(state, now)

    def _add(
        self,
        target: DatasetAlias,
        verb: str,
        work: Work,
        after: Sequence[str],
        reasons: tuple[Reason, ...],
    ) -> str:
        before = self.last_step.get(target)
        waits = (*after, *((before,) if before else ()))
        step = Step(
            id=f"{verb}:{target}",
            target=target,
            work=work,
            after=tuple(dict.fromkeys(waits)),
            reasons=reasons,
        )
        self.steps.append(step)
        self.last_step[target] = step.id
        return step.id

    def _inputs_created(self, work: Append) -> tuple[str, ...]:
        """A SetTransform needs the ids of its inputs, so it waits for those that are created."""
        refs = [
            source.dataset_ref
            for event in work.events
            if isinstance(event, SetTransform)
            for source in event.inputs
        ]
        named = (self._alias_of(ref) for ref in dict.fromkeys(refs))  # in any spelling
        found = (self.created_by.get(ref) for ref in named if isinstance(ref, DatasetAlias))
        return tuple(step for step in found if step is not None)

    def _alias_of(self, ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return self.by_id.get(ref, ref) if isinstance(ref, DatasetId) else ref


def _why_append(
    each: Declared, state: ChainState | None, changes: Sequence[EventChange]
) -> tuple[Reason, ...]:
    if state is None:
        return (NotYetCreated(str(each.span(()))),)
    return tuple(
        DefinitionChanged(
            type(change.event).__name__,
            str(each.span(() if change.index is None else ("metadata", change.index))),
        )
        for change in changes
    )
