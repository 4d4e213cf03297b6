"""What of a project a command plans, and by which gate: the options that plan and apply share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.cli.usage import UsageRefusedError

if TYPE_CHECKING:
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.evolution.gate import Allowance

__all__ = ["GATES", "Scope", "scoped"]

GATES = ("strict", "default", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which datasets are planned, and how.

    `allow` are rules to let pass this once, CODE or CODE:SELECTOR; the others are as in app.Asked.
    """

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    gate: str = "default"
    allow: tuple[str, ...] = ()
    metadata_only: bool = False
    refresh: bool = True
    against: str | None = None
    engine: bool = False

    @property
    def is_plain(self) -> bool:
        """Say whether the whole project is planned, by its own policy and with all its data."""
        return self == Scope()


def scoped(project: app.Opened, scope: Scope) -> app.Made:
    """Return the plan of the selected datasets, with what it was made of.

    Raises ProjectErrors, and SelectorError with all that is wrong with the selectors.
    """
    made = app.make_whole(project, _asked(project, scope))
    if not scope.select and not scope.exclude:
        return made
    from odfbuild.cli.selection import chosen
    from odfbuild.planner.restrict import restrict

    declared = made.loaded.declared
    found = chosen(project, declared, scope.select, scope.exclude, plan=lambda: made.plan)
    unread = made.loaded.wrong.keys() - {each.alias for each in declared}
    left_out = {
        a: why for a, why in made.left_out.items() if a is None or a in found or a in unread
    }
    plan = restrict(made.plan, found)
    return app.Made(plan, made.loaded, left_out=left_out, files=made.files)


def _asked(project: app.Opened, scope: Scope) -> app.Asked:
    if scope.gate not in GATES:
        raise UsageRefusedError(
            what=f"--gate {scope.gate}: there is no such gate",
            why="the gate says what becomes of findings",
            fix=f"use one of: {', '.join(GATES)}",
        )
    if not scope.allow:
        return _bare(scope)
    return replace(_bare(scope), allowed=lambda declared: _allowed(project, scope, declared))


def _bare(scope: Scope) -> app.Asked:
    return app.Asked(
        gate=scope.gate,
        metadata_only=scope.metadata_only,
        refresh=scope.refresh,
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
    project: app.Opened, scope: Scope, declared: Sequence[Declared]
) -> tuple[Allowance, ...]:
    from odfbuild.cli.selection import chosen
    from odfbuild.planner.evolution.gate import Allowance

    found = []
    for text in scope.allow:
        code, colon, selector = text.partition(":")
        datasets = chosen(project, declared, [selector]) if colon else None
        found.append(Allowance(code.upper(), datasets, text))
    return tuple(found)
