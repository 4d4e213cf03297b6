"""Scope of a command: the selected part of a project, its gate, and the pools of its run.

A dataset is in the pools that it has a tag of, and in `default` if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.cli.terminal.console import hint
from odfbuild.errors import ProjectErrors, UsageRefusedError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.runs.options import RunSettings
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.evolution.gate import Allowance
    from odfbuild.planner.plan.remote_inputs import LookMode


Definitions = Callable[[], "Sequence[Declared]"]


def run_settings_of(
    project: app.Opened,
    given: Sequence[str],
    *,
    fail_fast: bool = False,
    slices: int | None = None,
    declared: Sequence[Declared] | None = None,
) -> RunSettings:
    """Return the settings of a run; `given` are pools as NAME=N, which go before the project's.

    Definitions are read only where there are pools.  Raises UsageRefusedError.
    """
    from odfbuild.executors.runs.options import RunSettings

    pools = {**project.config.pools, **dict(map(_pool, given))}
    members: Mapping[DatasetAlias, tuple[str, ...]] = {}
    if pools:
        known = _declared(project) if declared is None else declared
        _refuse_unknown(project, given, known)
        members = _members(pools, known) | _repository_members(pools, known)
    return RunSettings(
        fail_fast=fail_fast, pools=pools, members=members, slices=slices, ending=_ending
    )


def _ending() -> None:
    hint("\nodfbuild: ends after the open slices; ^C again stops now\n")


def _pool(text: str) -> tuple[str, int]:
    name, sign, number = text.partition("=")
    if not name or not sign or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise UsageRefusedError(
            what=f"--pool {text}: not a pool",
            why="a pool has a name and says how many steps at a time may use it",
            fix="write, for instance, --pool default=2",
        )
    return name, int(number)


def _declared(project: app.Opened) -> Sequence[Declared]:
    """Return the definitions as they are; those of a saved plan may be broken by now."""
    try:
        return app.load(project, partly=True).declared
    except ProjectErrors:
        return ()


def _members(
    pools: Mapping[str, int], declared: Sequence[Declared]
) -> dict[DatasetAlias, tuple[str, ...]]:
    found = (
        (each.alias, tuple(tag for tag in each.traits.tags if tag in pools)) for each in declared
    )
    return {alias: tags for alias, tags in found if tags}


def _repository_members(
    pools: Mapping[str, int], declared: Sequence[Declared]
) -> dict[DatasetAlias, tuple[str, ...]]:
    """Return the pools of inputs that are datasets of repositories: that of their name."""
    from odfbuild.planner.plan.remote_inputs import repository_of

    found: dict[DatasetAlias, tuple[str, ...]] = {}
    for given in (given for each in declared for given in each.remote):
        repository = repository_of(given.ref)
        if repository in pools:
            found[given.alias] = (str(repository),)
    return found


def _refuse_unknown(
    project: app.Opened, given: Sequence[str], declared: Sequence[Declared]
) -> None:
    from odfbuild.executors.runs.options import DEFAULT_POOL
    from odfbuild.texts.suggest import did_you_mean

    known = {DEFAULT_POOL, *project.config.pools, *project.config.repositories}
    known.update(tag for each in declared for tag in each.traits.tags)
    for name, _ in map(_pool, given):
        if name not in known:
            raise UsageRefusedError(
                what=f"--pool {name}: there is no such pool",
                why="a pool stands in `pools:` of odfbuild.yaml, or is a tag of datasets, or a "
                "repository",
                fix=did_you_mean(name, known) or "name a tag, or `default` for all others",
            )


GATES = ("strict", "default", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanScope:
    """Which datasets are planned, and how.

    `allow` are rules to let pass this once, CODE or CODE:SELECTOR; the others are as in
    app.PlanRequest, where `repositories` is None for what the command does by itself.
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


def scoped_plan(project: app.Opened, scope: PlanScope) -> app.PlanResult:
    """Return the plan of the selected datasets, with what it was made of.

    Raises ProjectErrors, and SelectorError with all that is wrong with the selectors.
    """
    made = app.plan_result(project, _asked(project, scope))
    if not scope.select and not scope.exclude:
        return made
    from odfbuild.cli.arguments.selection import selected_datasets
    from odfbuild.planner.plan.subset import restrict

    declared = made.loaded.declared
    found = selected_datasets(
        project, declared, scope.select, scope.exclude, plan=lambda: made.plan
    )
    unread = made.loaded.wrong.keys() - {each.alias for each in declared}
    left_out = {
        a: why for a, why in made.left_out.items() if a is None or a in found or a in unread
    }
    plan = restrict(made.plan, found)
    return app.PlanResult(plan, made.loaded, left_out=left_out, files=made.files)


def _asked(project: app.Opened, scope: PlanScope) -> app.PlanRequest:
    if scope.gate not in GATES:
        raise UsageRefusedError(
            what=f"--gate {scope.gate}: there is no such gate",
            why="the gate says what becomes of findings",
            fix=f"use one of: {', '.join(GATES)}",
        )
    if not scope.allow:
        return _bare(scope)
    return replace(_bare(scope), allowed=lambda declared: _allowed(project, scope, declared))


def _bare(scope: PlanScope) -> app.PlanRequest:
    return app.PlanRequest(
        gate=scope.gate,
        metadata_only=scope.metadata_only,
        refresh=scope.refresh,
        repositories=scope.repositories or "known",
        against=_revision(scope.against),
        engine=scope.engine,
    )


def _revision(given: str | None) -> str | None:
    if given is None or (given.startswith("git:") and len(given) > len("git:")):
        return given
    raise UsageRefusedError(
        what=f"--against {given}: not a revision",
        why="a plan is compared with the workspace, or with the project in a revision of git",
        fix="write, for instance, --against git:main",
    )


def _allowed(
    project: app.Opened, scope: PlanScope, declared: Sequence[Declared]
) -> tuple[Allowance, ...]:
    from odfbuild.cli.arguments.selection import selected_datasets
    from odfbuild.planner.evolution.gate import Allowance

    found = []
    for text in scope.allow:
        code, colon, selector = text.partition(":")
        datasets = selected_datasets(project, declared, [selector]) if colon else None
        found.append(Allowance(code.upper(), datasets, text))
    return tuple(found)
