"""odfbuild apply --resume: what of a run is done, and the rest of its plan."""

import sys
from collections.abc import Iterator, Sequence

from odfbuild import app
from odfbuild.app.resuming import Resumed
from odfbuild.cli.words import count
from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Plan
from odfbuild.planner.remaining import fitting
from odfbuild.project.config import load_config

__all__ = ["refuse_given_up", "resumed_text", "what_fits"]

_NAMED = 5
_LISTED = 20


def resumed_text(found: Resumed) -> str:
    """Return what is gone on with, and what is skipped because it was done."""
    run, left = found.run, len(found.plan.steps)
    all_steps = count(len(found.done) + left, "step")
    lines = [
        f"Run     {run.id} ({run.command}, {run.started}, {run.outcome.value})",
        f"        {len(found.done):,} of {all_steps} were done, {left:,} left",
        *(f"  done  {id}" for id in found.done[:_LISTED]),
    ]
    if len(found.done) > _LISTED:
        lines.append(f"        and {len(found.done) - _LISTED:,} more")
    return "\n".join([*lines, ""]) + "\n"


def what_fits(plan: Plan, stale: Sequence[DatasetAlias], *, partial: bool) -> Plan:
    """Return what of a plan may be carried out; with `partial` that is what still fits.

    Raises StalePlanError when anything moved, with `partial` when nothing fits.
    """
    from odfbuild.executors.runner import StalePlanError

    if not stale:
        return plan
    fits = fitting(plan, stale)
    if partial and (fits.steps or not plan.steps):
        _warn(plan, fits, stale)
        return fits
    raise StalePlanError(
        what=_moved(stale),
        why="nothing is left of the plan that does not touch or read these"
        if partial
        else "a plan is carried out on what it was made against, or not at all",
        fix="plan again" if partial else "plan again; or do what still fits of it: --partial",
    )


def refuse_given_up(project: app.Opened, plan: Plan) -> None:
    """Refuse to make a dataset of a name that it gave up since.  Raises StalePlanError."""
    from odfbuild.executors.runner import StalePlanError
    from odfbuild.planner.policy import last_names

    moved = load_config(project.root).moved  # as they are now that leases were waited for
    names = project.workspace.names() if moved else {}
    for old, new in last_names(moved).items():
        makes = any(s.target == old and plan.datasets[old].based_on is None for s in plan.steps)
        if makes and new in names and old not in names:
            raise StalePlanError(
                what=f"{old} is called {new} by now",
                why="the plan makes a dataset of the old name, and a second one would come of it",
                fix="plan again",
            )


def _warn(plan: Plan, fits: Plan, stale: Sequence[DatasetAlias]) -> None:
    from odfbuild.cli.diagnostics import render_diagnostic

    warning = Diagnostic(
        code="stale-plan",
        what="\n  ".join([_moved(stale), *_left_out(plan, fits)]),
        why="what touches or reads these is left out",
        fix="plan again for the rest",
        level=Level.WARNING,
    )
    sys.stderr.write(render_diagnostic(warning) + "\n")


def _left_out(plan: Plan, fits: Plan) -> Iterator[str]:
    kept = {step.id for step in fits.steps}
    for step in plan.steps:
        if step.id not in kept:
            yield f"left out: {step.id}"


def _moved(found: Sequence[DatasetAlias]) -> str:
    first, *more = map(str, found)
    shown = ", ".join(more[: _NAMED - 1])
    rest = f" and {len(found) - _NAMED:,} others" if len(found) > _NAMED else ""
    also = f", nor {'is' if len(more) == 1 else 'are'} {shown}{rest}" if more else ""
    return f"{first} is not where the plan found it{also}"
