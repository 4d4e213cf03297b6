"""Selection: the datasets that selectors mean, and the plan of those.

Only what the selectors ask for is found out: a plan for `state:` and `change:`, queries for
`column:`, chains for `state:drifted` and `state:diverged`; names and tags need nothing but the
definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, UsageRefusedError
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.project.opened import refuse_damaged
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.app.plan.make_plan import PlanRequest, PlanResult
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.evolution.columns.use import ColumnUse
    from odfbuild.planner.evolution.gate import Allowance
    from odfbuild.planner.plan import Plan
    from odfbuild.planner.plan.remote_inputs import LookMode
    from odfbuild.planner.select.facts import Facts
    from odfbuild.planner.select.select import Fact, Selected
    from odfbuild.planner.select.tree import Selector, StateFlag
    from odfbuild.project.load import Project
    from odfbuild.project.opened import Opened


Selectors = Sequence[str]
GATES = ("strict", "default", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanScope:
    """Which datasets are planned, and how.

    `allow` are rules to let pass this once, CODE or CODE:SELECTOR; the others are as in
    PlanRequest, where `repositories` is None for what the command does by itself.
    """

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    gate: str = "default"
    allow: tuple[str, ...] = ()
    metadata_only: bool = False
    refresh: bool = True
    repositories: LookMode | None = None
    against: str | None = None
    engine: bool = False

    @property
    def is_plain(self) -> bool:
        """Say whether all of the project is planned, by its own policy and with all its data."""
        return self == PlanScope()

    @property
    def looking(self) -> PlanScope:
        """Return the scope of a plan that is to be carried out: it looks at repositories."""
        return replace(self, repositories=self.repositories or "look")


def scoped_plan(project: Opened, scope: PlanScope) -> PlanResult:
    """Return the plan of the selected datasets, with what it was made of.

    Its `notes` are what is odd about the selectors.  Raises ProjectErrors, SelectorError with all
    that is wrong with the selectors, and UsageRefusedError.
    """
    from odfbuild.app.plan.make_plan import plan_result

    notes: list[Diagnostic] = []
    made = plan_result(project, _request(project, scope, notes))
    if not scope.select and not scope.exclude:
        return replace(made, notes=tuple(notes))
    from odfbuild.planner.plan.subset import restrict

    declared = made.loaded.declared
    found = selected(project, declared, scope.select, scope.exclude, plan=lambda: made.plan)
    unread = made.loaded.wrong.keys() - {each.alias for each in declared}
    return replace(
        made,
        plan=restrict(made.plan, found.datasets),
        known=None,
        left_out={
            alias: why
            for alias, why in made.left_out.items()
            if alias is None or alias in found.datasets or alias in unread
        },
        notes=(*notes, *found.notes),
    )


def _request(project: Opened, scope: PlanScope, notes: list[Diagnostic]) -> PlanRequest:
    from odfbuild.app.plan.make_plan import PlanRequest

    if scope.gate not in GATES:
        raise UsageRefusedError(
            what=f"--gate {scope.gate}: there is no such gate",
            why="the gate decides about findings",
            fix=f"use one of: {', '.join(GATES)}",
        )
    asked = PlanRequest(
        gate=scope.gate,
        metadata_only=scope.metadata_only,
        refresh=scope.refresh,
        repositories=scope.repositories or "known",
        against=_revision(scope.against),
        engine=scope.engine,
    )
    if not scope.allow:
        return asked
    return replace(asked, allowed=lambda declared: _allowances(project, scope, declared, notes))


def _revision(given: str | None) -> str | None:
    if given is None or (given.startswith("git:") and len(given) > len("git:")):
        return given
    raise UsageRefusedError(
        what=f"--against {given}: not a revision",
        why="a plan is compared with the workspace, or with the project in a revision of git",
        fix="write, for instance, --against git:main",
    )


def _allowances(
    project: Opened, scope: PlanScope, declared: Sequence[Declared], notes: list[Diagnostic]
) -> tuple[Allowance, ...]:
    from odfbuild.planner.evolution.gate import Allowance

    notes.clear()  # of a plan that is made again without some datasets
    allowed = []
    for text in scope.allow:
        code, colon, selector = text.partition(":")
        datasets = None
        if colon:
            found = selected(project, declared, [selector])
            datasets = found.datasets
            notes += found.notes
        allowed.append(Allowance(code.upper(), datasets, text))
    return tuple(allowed)


def selected(
    project: Opened,
    declared: Sequence[Declared],
    selectors: Selectors,
    exclude: Selectors = (),
    *,
    plan: Callable[[], Plan] | None = None,
) -> Selected:
    """Return the declared datasets that selectors mean; without any, all of them.

    `plan` gives the plan of the whole project when one is asked for; by default it is made.
    Raises SelectorError with all that is wrong with the selectors.
    """
    if not selectors and not exclude:
        return _all_of(each.alias for each in declared)
    selector = parse_selectors(project, selectors, exclude)
    _refuse_damaged(project, selector, {each.alias for each in declared})
    known = project.workspace.names() if _names_ids(declared) else {}
    return _choose(project, selector, declared, known, plan)


def selected_existing(
    project: Opened,
    selectors: Selectors,
    exclude: Selectors = (),
    load: Callable[[Opened], Project] | None = None,
) -> Selected:
    """Return the datasets of the workspace that selectors mean, declared or not.

    While only names and globs are given, the project's definitions are not read; `load` reads them,
    by default so that any that is wrong is refused.
    """
    from odfbuild.app import load_project

    known = project.workspace.names()
    if not selectors and not exclude:
        return _all_of(known)
    plain = {str(alias).lower(): alias for alias in known}
    if not exclude and all(each.lower() in plain for each in selectors):
        return _all_of(plain[each.lower()] for each in selectors)
    selector = parse_selectors(project, selectors, exclude)
    _refuse_damaged(project, selector, known)
    read = load or load_project.load
    declared = read(project).declared if _asks_definitions(selector) else ()
    found = _choose(project, selector, declared, known, None, existing=True)
    return replace(found, datasets=frozenset(known) & found.datasets)


def _all_of(datasets: Iterable[DatasetAlias]) -> Selected:
    from odfbuild.planner.select.select import Selected

    return Selected(frozenset(datasets))


def _refuse_damaged(project: Opened, selector: Selector, known: Container[DatasetAlias]) -> None:
    """Raise the damage of a dataset that is named and cannot be found for it."""
    from odfbuild.planner.select.tree import NameSelector, atoms

    for expression in (selector.root, *selector.named.values()):
        for atom in atoms(expression):
            with suppress(InvalidNameError):
                alias = DatasetAlias.parse(atom.text) if isinstance(atom, NameSelector) else None
                if alias is not None and alias not in known:
                    refuse_damaged(project, alias)


def _asks_definitions(selector: Selector) -> bool:
    """Say whether a selector means anything but names."""
    from odfbuild.planner.select.select import Fact, needs
    from odfbuild.planner.select.tree import By, atoms

    expressions = (selector.root, *selector.named.values())
    methods = any(isinstance(atom, By) for each in expressions for atom in atoms(each))
    return methods or Fact.INPUTS in needs(selector)


def parse_selectors(project: Opened, selectors: Selectors, exclude: Selectors) -> Selector:
    """Return several selectors as one: their union, without what any of the others means.

    Raises SelectorError with everything that is wrong in any of them.
    """
    from odfbuild.planner.select.parse import SelectorError, parse_selector
    from odfbuild.planner.select.tree import AnyOf, Selector, Subtraction

    named = project.config.selectors
    read: list[list[Selector]] = [[], []]
    found: list[Diagnostic] = []
    for texts, origin, into in ((selectors, "selector", 0), (exclude, "--exclude", 1)):
        for text in texts:
            try:
                read[into].append(parse_selector(text, named, origin=origin))
            except SelectorError as error:
                found += error.found
    if found:
        raise SelectorError(found)
    wanted, without = ([each.root for each in part] for part in read)
    base = AnyOf(tuple(wanted)) if wanted else parse_selector("*").root
    root = Subtraction(base, AnyOf(tuple(without))) if without else base
    return Selector(root, {k: v for part in read for each in part for k, v in each.named.items()})


def _choose(
    project: Opened,
    selector: Selector,
    declared: Sequence[Declared],
    known: Mapping[DatasetAlias, DatasetId],
    plan: Callable[[], Plan] | None,
    *,
    existing: bool = False,
) -> Selected:
    from odfbuild.planner.select.facts import selection_graph
    from odfbuild.planner.select.select import Fact, choose, needs

    asked = needs(selector)
    facts = _facts(project, declared, asked, plan)
    states = project.workspace.states() if existing else None
    graph = selection_graph(declared, known, facts, existing=states)
    columns = column_use(project, declared).users if Fact.COLUMNS in asked else None
    return choose(selector, graph, columns)


def column_use(project: Opened, declared: Sequence[Declared]) -> ColumnUse:
    """Return what the queries of a project say of columns; each is read when it is asked for."""
    from odfbuild.app.load_project import locked_columns
    from odfbuild.executors.engine.quick_columns import QuickColumns
    from odfbuild.planner.evolution.columns.use import ColumnUse

    locked = locked_columns(project.root, declared)
    return ColumnUse(declared, project.workspace.states(), locked, QuickColumns(project))


def _facts(
    project: Opened,
    declared: Sequence[Declared],
    asked: frozenset[Fact],
    plan: Callable[[], Plan] | None,
) -> Facts:
    from odfbuild.app.plan.make_plan import make
    from odfbuild.planner.select.facts import Facts, facts_of
    from odfbuild.planner.select.select import Fact
    from odfbuild.planner.select.tree import StateFlag

    facts = Facts()
    if asked & {Fact.MODIFIED, Fact.STALE, Fact.CHANGE}:
        facts = facts_of(make(project) if plan is None else plan())
    elif Fact.NEW in asked:
        names = project.workspace.names()
        facts = _with_flag(
            facts, StateFlag.NEW, (d.alias for d in declared if d.alias not in names)
        )
    if Fact.FAILED in asked:
        facts = _with_flag(facts, StateFlag.FAILED, _failed_datasets(project, declared))
    if Fact.DRIFTED in asked:
        from odfbuild.app.inspection.drift import find_drift

        found = find_drift(project.workspace.read_only(), declared, moved=project.policy.moved)
        drifted = (each.dataset for each in found if isinstance(each.dataset, DatasetAlias))
        facts = _with_flag(facts, StateFlag.DRIFTED, drifted)
    if Fact.DIVERGED in asked:
        from odfbuild.app.plan.input_history import rewritten_inputs

        lost = rewritten_inputs(project.workspace, project.workspace.states())
        facts = _with_flag(facts, StateFlag.DIVERGED, lost)
    return facts


def _with_flag(facts: Facts, flag: StateFlag, aliases: Iterable[DatasetAlias]) -> Facts:
    flagged = {alias: facts.state.get(alias, frozenset()) | {flag} for alias in aliases}
    return replace(facts, state={**facts.state, **flagged})


def _failed_datasets(project: Opened, declared: Sequence[Declared]) -> list[DatasetAlias]:
    from odfbuild.state.memory.applied import recall_applied

    known = recall_applied(project.workspace.root, (each.alias for each in declared))
    return [alias for alias, each in known.items() if each.result == "failed"]


def _names_ids(declared: Sequence[Declared]) -> bool:
    """Say whether any dataset names an input by its id."""
    from odfbuild.odf.events import SetTransform

    return any(
        isinstance(source.dataset_ref, DatasetId)
        for each in declared
        for event in each.snapshot.metadata
        if isinstance(event, SetTransform)
        for source in event.inputs
    )
