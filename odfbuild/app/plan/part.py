"""Partial planning: the changed part of a project is planned, with everything that it reaches.

What is said of a dataset depends on its definition, its chain, its source, and on the same of what
it is made of.  So the datasets that changes reach are planned together with all that those are made
of, and of the rest holds what the rows of the plan before say: nothing is said of it.  Where more
may depend on more, or anything is wrong, there is no such plan, and all of the project is planned.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from odfbuild.app.load_project import load
from odfbuild.app.plan.cache import Moved, Part, UnchangedPlan, keep, together
from odfbuild.app.plan.file_snapshot import ProjectChangedError, ProjectFiles
from odfbuild.app.plan.make_plan import PlanRequest, PlanResult, WorkedOut, is_idle, work_out
from odfbuild.app.plan.rows import Links, has_local_source, in_parts, is_alone, is_loud, place_of
from odfbuild.errors import OdfBuildError, SourceSpan
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.exclusion import Wrong
from odfbuild.planner.make_plan import definition_text, hash_of
from odfbuild.planner.plan import BaseHead, Plan, Planned
from odfbuild.planner.plan.at_rest import DatasetNames, WithRest
from odfbuild.project.load import Project
from odfbuild.project.opened import Opened
from odfbuild.state.memory.plan_rows import PlanRows, recall_rows
from odfbuild.state.memory.plans import ChangedRow
from odfbuild.values import dataclass

_DID: Final = "did:odf:"
_NOTHING: Final = Moved(frozenset(), "", {})
_FEW: Final = 200  # rows that are quicker put beside the others than written with them


def partial_plan(project: Opened, part: Part) -> PlanResult | None:
    """Return the plan of a project, equal to that of `plan_result`; None where all is planned.

    Of what it was made of, `loaded` has the part only.  Raises ProjectChangedError.
    """
    rows, found = recall_rows(part.cache, part.plan_record), None
    try:
        if rows is not None and part.is_early:
            found = _made_of(project, part, rows, _NOTHING)
    finally:
        moved = part.moved()
    if rows is None or moved is None:
        return None
    if not (part.is_early and moved.is_nothing):
        found = _made_of(project, part, rows, moved)
    if found is None:
        return None
    known = _keep_plan(project, part, moved, found)
    return PlanResult(found.plan, found.of.loaded, known, files=found.files)


@dataclass(frozen=True, slots=True)
class _Made:
    """A plan, what it was made of, what is to be kept of these datasets, and all rows."""

    plan: Plan
    files: ProjectFiles
    of: "_PlannedPart"
    changed: Sequence[ChangedRow]
    rows: PlanRows


def _made_of(project: Opened, part: Part, rows: PlanRows, moved: Moved) -> _Made | None:
    """Return the plan where that alone moved; None where all of the project is to be planned.

    Raises ProjectChangedError.
    """
    chosen = _chosen(part, rows, moved)
    read = None if chosen is None else _read(project, rows, chosen)
    if chosen is None or read is None:
        return None
    files = ProjectFiles(part.plan_record.context, part.files_now)
    same = together(project, part.plan_record.datasets, lambda: files.are_unchanged(project))
    found = _planned_alone(project, read, chosen)
    made = None
    if found is not None:
        changed = tuple(found.changed_rows())
        now = rows.with_changed(changed, found.loud(rows))
        made = _Made(found.plan(part, rows, now), files, found, changed, now)
    if not same():
        raise ProjectChangedError(project.root)
    return made


def _chosen(part: Part, rows: PlanRows, moved: Moved) -> list[int] | None:
    """Return the datasets to look at, in order; None where these are all, or some are not known."""
    if not part.files <= set(rows.files) or len(part.plan_record.sources) != len(rows.sources):
        return None
    start = {*rows.loud, *(rows.sources[number] for number in moved.sources)}
    start |= {number for number, file in enumerate(rows.files) if file in part.files}
    if moved.heads:
        by_id = {id: number for number, id in enumerate(rows.ids)}
        if not moved.heads <= by_id.keys():
            return None
        start |= {by_id[id] for id in moved.heads}
    chosen = rows.around(start)
    return sorted(chosen) if len(chosen) < len(rows.forms) else None


@dataclass(frozen=True, slots=True)
class _PlannedPart:
    """The datasets that were planned: their numbers among all, and what was made of them."""

    numbers: Sequence[int]
    loaded: Project
    current: Mapping[DatasetAlias, ChainState]
    links: Sequence[Links]
    worked: WorkedOut

    def changed_rows(self) -> Iterator[ChangedRow]:
        """Yield the rows of the datasets."""
        for number, each, links in zip(self.numbers, self.loaded.declared, self.links, strict=True):
            state = self.current.get(each.alias)
            id = None if state is None else state.dataset.multibase
            place = place_of(self.worked.plan, each.alias)
            yield ChangedRow(number, id, links.holds, definition_text(each), place)

    def loud(self, before: PlanRows) -> tuple[int, ...]:
        """Return the datasets that the plan has something to say of, among all."""
        plan, chosen = self.worked.plan, set(self.numbers)
        targets = {step.target for step in plan.steps}
        found = [number for number in before.loud if number not in chosen]
        pairs = zip(self.numbers, self.loaded.declared, strict=True)
        found += [number for number, each in pairs if is_loud(plan, each.alias, targets)]
        return tuple(sorted(found))

    def plan(self, part: Part, before: PlanRows, now: PlanRows) -> Plan:
        """Return the plan of all datasets, those at rest as they were."""
        plan = self.worked.plan
        by_number = dict(zip(self.numbers, plan.datasets.items(), strict=True))
        moving = plan.datasets.keys() - set(plan.unchanged)

        def every() -> dict[DatasetAlias, Planned]:
            heads = part.plan_record.heads.by_id()
            found = {}
            for number, name in enumerate(before.aliases):
                if number in by_number:
                    alias, planned = by_number[number]
                else:
                    alias, planned = (
                        DatasetAlias.parse(name),
                        _planned_at_rest(before, number, heads),
                    )
                found[alias] = planned
            return found

        def unchanged() -> tuple[DatasetAlias, ...]:
            return tuple(alias for alias in datasets if alias not in moving)

        size = len(before.forms)
        datasets = WithRest(plan.datasets, size, every)
        return replace(
            plan,
            project_hash=hash_of(now.forms),
            datasets=datasets,
            unchanged=DatasetNames(size - len(moving), unchanged),
        )


def _planned_at_rest(rows: PlanRows, number: int, heads: Mapping[str, str]) -> Planned:
    """Return a dataset at rest, which is built."""
    kind, line, column, length, excerpt = rows.place(number)
    file, id = rows.files[number], rows.ids[number]
    assert id is not None  # noqa: S101 - it is built
    return Planned(
        kind=DatasetKind(kind),
        place=SourceSpan(file=file, line=line, column=column, length=length, excerpt=excerpt),
        based_on=BaseHead(DatasetId.parse(f"{_DID}{id}"), Multihash.parse(heads[id])),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """Definitions as they were read, and the chains and inputs of each."""

    loaded: Project
    current: Mapping[DatasetAlias, ChainState]
    links: Sequence[Links]


def _read(project: Opened, rows: PlanRows, numbers: Sequence[int]) -> _Read | None:
    """Read some of the datasets; None if it is not certain that to plan these is enough."""
    ids = {
        DatasetAlias.parse(rows.aliases[number]): DatasetId.parse(f"{_DID}{id}")
        for number in numbers
        if (id := rows.ids[number]) is not None
    }
    try:
        current = project.workspace.states(ids)
        if project.workspace.damage() or len(current) != len(ids):
            return None
        loaded = load(project, ids, partly=True, only={rows.files[number] for number in numbers})
    except OdfBuildError:
        return None
    if loaded.wrong or loaded.unread or loaded.notes or len(loaded.declared) != len(numbers):
        return None
    by_alias = {each.alias: number for number, each in zip(numbers, loaded.declared, strict=True)}
    by_id = {state.dataset: alias for alias, state in current.items()}
    links = [Links(each, current.get(each.alias), by_alias, by_id) for each in loaded.declared]
    for number, each, found in zip(numbers, loaded.declared, links, strict=True):
        same = str(each.alias) == rows.aliases[number] and each.file == rows.files[number]
        local = has_local_source(each) == (number in rows.sources)
        if not (same and local and is_alone(each) and found.is_whole):
            return None
        if found.reads != list(rows.reads[number]):
            return None
    if any(state.vocab.operation_type_column != "op" for state in current.values()):
        return None
    return _Read(loaded, current, links)


def _planned_alone(project: Opened, read: _Read, numbers: Sequence[int]) -> _PlannedPart | None:
    """Plan datasets that were read; None where more has to be said than of each of them."""
    try:
        worked = work_out(project, PlanRequest(), read.loaded, read.current, Wrong({}))
    except OdfBuildError:
        return None
    plan = worked.plan
    if worked.rest.left_out or plan.refused or len(plan.datasets) != len(numbers):
        return None
    return _PlannedPart(numbers, read.loaded, read.current, read.links, worked)


def _keep_plan(project: Opened, part: Part, moved: Moved, made: _Made) -> UnchangedPlan | None:
    """Remember the plan, where it says nothing but of single datasets.

    Of few that changed since all rows were kept, their rows are put beside.
    """
    before, found, rows = part.plan_record, made.of, made.rows
    worked = found.worked
    if project.workspace.is_read_only or not in_parts(worked.plan):
        return None
    heads = {state.dataset.multibase: str(state.head) for state in found.current.values()}
    at = {number: place for place, number in enumerate(rows.sources)}
    sources = list(before.sources)
    for number, source in moved.sources.items():
        sources[number] = source
    for number, each in zip(found.numbers, found.loaded.declared, strict=True):
        if each.alias in worked.looked.sources:
            sources[at[number]] = worked.looked.sources[each.alias]
    since = {each.number: each for each in (*before.changed, *made.changed)}
    plan_record = replace(
        before,
        changed=tuple(since.values()),
        loud=tuple(rows.loud),
        idle=is_idle(worked.plan),
        stats=part.files_now.stats,
        young=part.files_now.young,
        heads=before.heads.with_heads(heads, moved.stats, now=part.taken),
        sources=tuple(sources),
    )
    return keep(part.cache, plan_record, rows if len(since) > _FEW else None)
