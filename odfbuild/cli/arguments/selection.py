"""Selection: the datasets that the selectors of a command mean.

Only what the selectors ask for is found out: a plan for `state:` and `change:`, queries for
`column:`, chains for `state:drifted` and `state:diverged`; names and tags need nothing but the
definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.errors import Diagnostic
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.project.opened import refuse_damaged

if TYPE_CHECKING:
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.evolution.columns.use import ColumnUse
    from odfbuild.planner.plan import Plan
    from odfbuild.planner.select.facts import Facts
    from odfbuild.planner.select.select import Fact
    from odfbuild.planner.select.tree import Selector, StateFlag
    from odfbuild.project.load import Project


Selectors = Sequence[str]


def selected_datasets(
    project: app.Opened,
    declared: Sequence[Declared],
    selectors: Selectors,
    exclude: Selectors = (),
    *,
    plan: Callable[[], Plan] | None = None,
) -> frozenset[DatasetAlias]:
    """Return the declared datasets that selectors mean; without any, all of them.

    `plan` gives the plan of the whole project when one is asked for; by default it is made.
    Warnings go to stderr.  Raises SelectorError with all that is wrong with the selectors.
    """
    if not selectors and not exclude:
        return frozenset(each.alias for each in declared)
    selector = parse_selectors(project, selectors, exclude)
    _refuse_damaged(project, selector, {each.alias for each in declared})
    known = project.workspace.names() if _names_ids(declared) else {}
    return _choose(project, selector, declared, known, plan)


def chosen_existing(
    project: app.Opened,
    selectors: Selectors,
    exclude: Selectors = (),
    load: Callable[[app.Opened], Project] | None = None,
) -> frozenset[DatasetAlias]:
    """Return the datasets of the workspace that selectors mean, declared or not.

    While only names and globs are given, the project's definitions are not read; `load` reads them,
    by default so that any that is wrong is refused.
    """
    known = project.workspace.names()
    if not selectors and not exclude:
        return frozenset(known)
    plain = {str(alias).lower(): alias for alias in known}
    if not exclude and all(each.lower() in plain for each in selectors):
        return frozenset(plain[each.lower()] for each in selectors)
    selector = parse_selectors(project, selectors, exclude)
    _refuse_damaged(project, selector, known)
    declared = (load or app.load)(project).declared if _asks_definitions(selector) else ()
    found = _choose(project, selector, declared, known, None, existing=True)
    return frozenset(alias for alias in known if alias in found)


def chosen_readable(
    project: app.Opened, selectors: Selectors, exclude: Selectors = ()
) -> tuple[frozenset[DatasetAlias], Project | None]:
    """Return what `chosen_existing` does, and the definitions that could be read, if any were."""
    from odfbuild.cli.unreadable import load_readable

    read: list[Project] = []

    def load(opened: app.Opened) -> Project:
        read.append(load_readable(opened))
        return read[-1]

    return chosen_existing(project, selectors, exclude, load), next(iter(read), None)


def _refuse_damaged(
    project: app.Opened, selector: Selector, known: Container[DatasetAlias]
) -> None:
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


def parse_selectors(project: app.Opened, selectors: Selectors, exclude: Selectors) -> Selector:
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
    project: app.Opened,
    selector: Selector,
    declared: Sequence[Declared],
    known: Mapping[DatasetAlias, DatasetId],
    plan: Callable[[], Plan] | None,
    *,
    existing: bool = False,
) -> frozenset[DatasetAlias]:
    from odfbuild.cli.render.diagnostics import render_diagnostics
    from odfbuild.planner.select.facts import selection_graph
    from odfbuild.planner.select.select import Fact, choose, needs

    asked = needs(selector)
    facts = _facts(project, declared, asked, plan)
    states = project.workspace.states() if existing else None
    graph = selection_graph(declared, known, facts, existing=states)
    columns = column_use(project, declared).users if Fact.COLUMNS in asked else None
    found = choose(selector, graph, columns)
    if found.notes:
        sys.stderr.write(render_diagnostics(found.notes) + "\n")
    return found.datasets


def column_use(project: app.Opened, declared: Sequence[Declared]) -> ColumnUse:
    """Return what the queries of a project say of columns; each is read when it is asked for."""
    from odfbuild.app.load_project import locked_columns
    from odfbuild.planner.evolution.columns.use import ColumnUse

    return ColumnUse(declared, project.workspace.states(), locked_columns(project.root, declared))


def _facts(
    project: app.Opened,
    declared: Sequence[Declared],
    asked: frozenset[Fact],
    plan: Callable[[], Plan] | None,
) -> Facts:
    from odfbuild.planner.select.facts import Facts, facts_of
    from odfbuild.planner.select.select import Fact
    from odfbuild.planner.select.tree import StateFlag

    facts = Facts()
    if asked & {Fact.MODIFIED, Fact.STALE, Fact.CHANGE}:
        facts = facts_of(app.make(project) if plan is None else plan())
    elif Fact.NEW in asked:
        names = project.workspace.names()
        facts = _flagged(facts, StateFlag.NEW, (d.alias for d in declared if d.alias not in names))
    if Fact.FAILED in asked:
        facts = _flagged(facts, StateFlag.FAILED, _failed(project, declared))
    if Fact.DRIFTED in asked:
        from odfbuild.app.inspection.drift import find_drift

        found = find_drift(project.workspace.read_only(), declared, moved=project.policy.moved)
        drifted = (each.dataset for each in found if isinstance(each.dataset, DatasetAlias))
        facts = _flagged(facts, StateFlag.DRIFTED, drifted)
    if Fact.DIVERGED in asked:
        from odfbuild.app.plan.divergence import rewritten_inputs

        lost = rewritten_inputs(project.workspace, project.workspace.states())
        facts = _flagged(facts, StateFlag.DIVERGED, lost)
    return facts


def _flagged(facts: Facts, flag: StateFlag, aliases: Iterable[DatasetAlias]) -> Facts:
    flagged = {alias: facts.state.get(alias, frozenset()) | {flag} for alias in aliases}
    return replace(facts, state={**facts.state, **flagged})


def _failed(project: app.Opened, declared: Sequence[Declared]) -> list[DatasetAlias]:
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
