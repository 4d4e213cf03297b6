"""odfbuild reset, compact and rebuild: say what will happen and to whom, ask, and do it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time_ns

from odfbuild import app
from odfbuild.app.maintenance.batch import (
    BatchOutcome,
    PreparedAll,
    carry_out_all,
    inputs_of,
    prepare_all,
    rebuilt_by,
)
from odfbuild.app.maintenance.rewrite import (
    CarriedOut,
    Compaction,
    PreparedRewrite,
    Rebuild,
    Reset,
    Wish,
    carry_out,
    check_files,
    prepare,
)
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import OnBusy
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import chosen_existing
from odfbuild.cli.consent import confirm, refuse_unplanned
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.render.kept_jobs import report_kept_jobs
from odfbuild.cli.reservation import Reservation, reservation
from odfbuild.cli.saved import print_saved, save_nothing, save_plan
from odfbuild.cli.terminal.console import hint
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.maintenance.batch import HousekeepingPlan
from odfbuild.planner.maintenance.compaction import DEFAULT_LIMITS
from odfbuild.planner.maintenance.rewrite import FULL, HARD, REBUILD, RESET, Housekeeping
from odfbuild.values import dataclass

_MOST_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOptions:
    """How a command goes about it: what it prints, whether it asks, where it saves instead.

    `downstream` rebuilds the datasets that cannot go on afterwards, and those after them.  A
    `full` rebuild begins new chains, by the definitions in the project.
    """

    yes: bool = False
    dry_run: bool = False
    as_json: bool = False
    out: Path | None = None
    lock_timeout: float = 10.0
    downstream: bool = False
    full: bool = False
    on_busy: str = OnBusy.WAIT

    @property
    def is_dry(self) -> bool:
        """Say whether nothing is done now."""
        return self.dry_run or self.out is not None


def housekeep(
    given: ProjectArguments,
    selectors: Sequence[str],
    exclude: Sequence[str],
    wish: Wish,
    settings: MaintenanceOptions,
) -> int:
    """Print what a wish will do to datasets; then save it, or ask and do it."""
    project = open_given(given, lock_timeout=settings.lock_timeout)
    if settings.full:
        wish = full_rebuild(project)
    if not settings.is_dry:
        refuse_unplanned(project, given, command_of(wish))
    only = _only_one(project, selectors)
    if only is None or exclude or settings.downstream or settings.full:
        return housekeep_selected(project, selectors, exclude, wish, settings)
    name = str(only)
    if settings.is_dry:
        return _prepare_and_run(project, name, wish, settings)
    with _reservation_of(project, name, wish, settings.on_busy) as mine:
        return exits.DONE if mine.busy else _prepare_and_run(project, name, wish, settings)


def full_rebuild(project: app.Opened) -> Rebuild:
    """Return a rebuild by the definitions of the project.  Raises ProjectErrors."""
    from odfbuild.app.plan.cache import engines

    definitions = {each.alias: each for each in app.load(project).declared}
    return Rebuild(definitions, engines(project.config))


def reset_at(text: str) -> Reset:
    """Return a reset to the last block up to a time.  Raises UsageRefusedError for no time."""
    from odfbuild.app.inspection.moment import moment

    now = Timestamp.from_millis(time_ns() // 1_000_000)
    return Reset(moment(text, now, why="the last block up to this time becomes the head"))


def _only_one(project: app.Opened, selectors: Sequence[str]) -> DatasetAlias | None:
    """Return the one dataset that is named, and None for selectors.

    Raises StateError that names the nearest one when there is none.
    """
    if len(selectors) != 1 or selectors[0] in project.config.selectors:
        return None
    try:
        DatasetAlias.parse(selectors[0])
    except InvalidNameError:
        return None
    return app.find_name(project, selectors[0])


@contextmanager
def _reservation_of(
    project: app.Opened, name: str, wish: Wish, on_busy: str
) -> Iterator[Reservation]:
    """Have a dataset; a rebuild reads its inputs."""
    states = project.workspace.states()
    alias = app.find_name(project, name)
    state = states.get(alias)
    read = set[DatasetAlias]()
    if state is not None and isinstance(wish, Rebuild):
        read = {other for other, each in states.items() if each.dataset in state.progress}
    with reservation(project, {alias}, read, command=command_of(wish), on_busy=on_busy) as mine:
        yield mine


def _prepare_and_run(
    project: app.Opened, name: str, wish: Wish, settings: MaintenanceOptions
) -> int:
    prepared = prepare(project, name, wish)
    if prepared is None:
        out = sys.stderr if settings.as_json else sys.stdout
        out.write(f"{app.find_name(project, name)}  Nothing to do: {idle_text(wish)}.\n")
        if settings.out is not None:
            save_nothing(settings.out)
        return exits.DONE
    if settings.is_dry:
        check_files(project, prepared)
    _print_plan(HousekeepingPlan((prepared.housekeeping,), alone=True), settings)
    if settings.is_dry:
        return exits.DONE
    if not settings.yes:
        confirm(prepared.housekeeping.work)
    return _done(project, prepared, as_json=settings.as_json)


def _print_plan(plan: HousekeepingPlan, settings: MaintenanceOptions) -> None:
    """Print what will happen; save it where that was asked for."""
    print_saved(plan, as_json=settings.as_json)
    if settings.out is not None:
        save_plan(plan, settings.out)


def command_of(wish: Wish) -> str:
    """Return the name of the command that asks for it."""
    match wish:
        case Reset():
            return "reset"
        case Compaction():
            return "compact"
        case Rebuild():
            return "rebuild"


def apply_saved_housekeeping(project: app.Opened, saved: HousekeepingPlan, on_busy: str) -> int:
    """Do exactly what was saved; StalePlanError, with nothing done, if it would now be another."""
    if not saved.alone:
        return _apply_saved_batch(project, saved, on_busy)
    (step,) = saved.steps
    name, wish = str(step.alias), _wish_of(project, step)
    with _reservation_of(project, name, wish, on_busy) as mine:
        return exits.DONE if mine.busy else _do_saved(project, saved, name, wish)


def _do_saved(project: app.Opened, saved: HousekeepingPlan, name: str, wish: Wish) -> int:
    from odfbuild.executors.runs.definition import StalePlanError
    from odfbuild.planner.maintenance.staleness import housekeeping_changes

    prepared = prepare(project, name, wish)
    if prepared is None or prepared.housekeeping != saved.steps[0]:
        now = [] if prepared is None else [prepared.housekeeping]
        changed = "; ".join(housekeeping_changes(saved.steps, now))
        raise StalePlanError(
            what=f"the plan no longer fits: {changed}",
            why="a saved plan can only be applied as it was reviewed",
            fix=f"save it again: odfbuild {command_of(wish)} with --out FILE",
        )
    print_saved(saved, as_json=False)
    return _done(project, prepared, as_json=False)


def _done(project: app.Opened, prepared: PreparedRewrite, *, as_json: bool) -> int:
    done = carry_out(project, prepared)
    out = sys.stderr if as_json else sys.stdout
    out.write(_done_line(prepared, done))
    report_kept_jobs()
    return exits.DONE


def _done_line(prepared: PreparedRewrite, done: CarriedOut) -> str:
    housekeeping = prepared.housekeeping
    there = "" if done.place is None else f", by {done.place}"
    return f"\n{housekeeping.alias}  {done.head}  (was {housekeeping.based_on}){there}\n"


def idle_text(wish: Wish) -> str:
    """Say why there is nothing to do."""
    match wish:
        case Reset():
            return "it ends there"
        case Compaction():
            return "there is nothing to compact"
        case Rebuild():
            return "it has no data yet; apply builds it"


def _wish_of(project: app.Opened, step: Housekeeping) -> Wish:
    """Return what a saved step asks for."""
    if step.work == RESET:
        return Reset(str(step.head))
    if step.work == REBUILD:
        return full_rebuild(project) if step.mode == FULL else Rebuild()
    return Compaction(str(step.mode), step.limits or DEFAULT_LIMITS)


def housekeep_selected(
    project: app.Opened,
    selectors: Sequence[str],
    exclude: Sequence[str],
    wish: Wish,
    settings: MaintenanceOptions,
) -> int:
    """Print what a wish will do to selected datasets; then save it, or ask and do it."""
    wishes, unfit = _wishes(project, selectors, exclude, wish)
    prepared = prepare_all(project, wishes, downstream=settings.downstream)
    if settings.is_dry or not prepared.steps:
        return _all_prepared(project, prepared, unfit, wish, settings)
    written, read = _names(project, prepared.steps)
    with reservation(
        project, written, read, command=command_of(wish), on_busy=settings.on_busy
    ) as mine:
        if mine.busy and settings.on_busy == OnBusy.SKIP:
            wishes = {alias: each for alias, each in wishes.items() if alias not in mine.busy}
        if mine.waited or mine.busy:
            prepared = prepare_all(project, wishes, downstream=settings.downstream)
            left = _without(prepared.steps, mine.busy, downstream=settings.downstream)
            _say_left_out(prepared.steps, left, mine.busy)
            prepared = PreparedAll(left, prepared.idle)
        return _all_prepared(project, prepared, unfit, wish, settings)


def _apply_saved_batch(project: app.Opened, saved: HousekeepingPlan, on_busy: str) -> int:
    from odfbuild.executors.runs.definition import StalePlanError
    from odfbuild.planner.maintenance.staleness import housekeeping_changes

    wishes = {step.alias: _wish_of(project, step) for step in saved.steps}
    inputs = {DatasetAlias.parse(name) for step in saved.steps for name in step.reads}
    read = inputs - wishes.keys()
    with reservation(project, wishes.keys(), read, command="apply", on_busy=on_busy) as mine:
        prepared = prepare_all(project, wishes, downstream=False)
        if mine.busy or _plan(prepared.steps) != saved:
            now = [step.housekeeping for step in prepared.steps]
            busy = [f"another run works on {alias}" for alias in sorted(mine.busy)]
            changed = "; ".join(busy or housekeeping_changes(saved.steps, now))
            raise StalePlanError(
                what=f"the plan no longer fits: {changed}",
                why="a saved plan can only be applied as it was reviewed",
                fix="save it again, with --out FILE",
            )
        print_saved(saved, as_json=False)
        return _all_done(project, prepared.steps, as_json=False)


def _wishes(
    project: app.Opened, selectors: Sequence[str], exclude: Sequence[str], wish: Wish
) -> tuple[Mapping[DatasetAlias, Wish], Sequence[DatasetAlias]]:
    """Return what is asked of which datasets, and which are left out, as it is not for their kind.

    One that is named itself is not left out: it is refused.
    """
    chosen = chosen_existing(project, selectors, exclude)
    kinds = {alias: state.kind for alias, state in project.workspace.states().items()}
    only = None
    if isinstance(wish, Rebuild) and not wish.is_full:
        only = DatasetKind.DERIVATIVE
    elif isinstance(wish, Compaction) and wish.mode == HARD:
        only = DatasetKind.ROOT
    named = {each.lower() for each in selectors}
    unfit = sorted(
        alias
        for alias in chosen
        if only is not None and kinds.get(alias, only) is not only
        if str(alias).lower() not in named
    )
    if len(unfit) == len(chosen):
        unfit = []  # to be refused with its reason
    return dict.fromkeys(sorted(chosen - {*unfit}), wish), unfit


def _names(
    project: app.Opened, steps: Sequence[PreparedRewrite]
) -> tuple[set[DatasetAlias], set[DatasetAlias]]:
    """Return the names of the datasets that steps change, and of those that they only read."""
    written = {step.housekeeping.alias for step in steps}
    names = {state.dataset: alias for alias, state in project.workspace.states().items()}
    read = {names[id] for step in steps for id in inputs_of(step) if id in names}
    return written, read - written


def _without(
    steps: Sequence[PreparedRewrite], busy: Collection[DatasetAlias], *, downstream: bool
) -> tuple[PreparedRewrite, ...]:
    """Leave out the steps of some datasets, and those that rebuild what is made of these.

    With `downstream` also those after which one of them could not go on: nobody would rebuild it.
    """
    gone, left = set(busy), tuple(steps)
    while True:
        kept = tuple(
            step
            for step in left
            if step.housekeeping.alias not in gone
            and gone.isdisjoint(map(DatasetAlias.parse, step.housekeeping.reads))
            and not (downstream and any(e.dataset in gone for e in step.housekeeping.stranded))
        )
        if kept == left:
            return left
        gone |= {step.housekeeping.alias for step in left if step not in kept}
        left = kept


def _say_left_out(
    steps: Sequence[PreparedRewrite],
    left: Sequence[PreparedRewrite],
    busy: Collection[DatasetAlias],
) -> None:
    names = [step.housekeeping.alias for step in steps if step not in left]
    if others := [each for each in names if each not in busy]:
        why = "they are rebuilt from, or together with, a busy dataset"
        sys.stderr.write(f"Left out: {_shortened_list(others)}: {why}.\n")


def _all_prepared(
    project: app.Opened,
    prepared: PreparedAll,
    unfit: Sequence[DatasetAlias],
    wish: Wish,
    settings: MaintenanceOptions,
) -> int:
    for aliases, why in ((prepared.idle, idle_text(wish)), (unfit, _unfit_text(wish))):
        if aliases:
            sys.stderr.write(f"Left out: {_shortened_list(aliases)}: {why}.\n")
    steps = prepared.steps
    if not steps:
        (sys.stderr if settings.as_json else sys.stdout).write("Nothing to do.\n")
        if settings.out is not None:
            save_nothing(settings.out)
        return exits.DONE
    plan = _plan(steps)
    if settings.is_dry:
        rebuilt = rebuilt_by(steps)
        for step in steps:
            check_files(project, step, rebuilt)
    _print_plan(plan, settings)
    if settings.is_dry:
        return exits.DONE
    if not settings.yes:
        confirm(command_of(wish))
    return _all_done(project, steps, as_json=settings.as_json)


def _plan(steps: Sequence[PreparedRewrite]) -> HousekeepingPlan:
    return HousekeepingPlan(tuple(step.housekeeping for step in steps))


def _unfit_text(wish: Wish) -> str:
    if isinstance(wish, Rebuild):
        return "root datasets are not made of other datasets"
    return "slices of derivative datasets are not merged"


def _shortened_list(names: Sequence[object]) -> str:
    more = len(names) - _MOST_NAMES
    shown = ", ".join(map(str, names[:_MOST_NAMES]))
    return f"{shown} and {more:,} more" if more > 0 else shown


def _all_done(project: app.Opened, steps: Sequence[PreparedRewrite], *, as_json: bool) -> int:
    """Do all; say what became of each, and, however it ends, what is left to be done."""
    out = sys.stderr if as_json else sys.stdout
    left = {step.housekeeping.alias: step.housekeeping for step in steps}
    failed: list[BatchOutcome] = []
    try:
        for each in carry_out_all(project, steps):
            housekeeping = each.step.housekeeping
            if each.done is not None:
                del left[housekeeping.alias]
                out.write(_done_line(each.step, each.done))
                out.flush()
            elif each.error is not None:
                failed.append(each)
                sys.stderr.write(f"{render_diagnostics(each.error.diagnostics())}\n")
    finally:
        report_kept_jobs()
        if left:
            sys.stderr.write(f"Not done: {_shortened_list(list(left))}.\n")
            rebuilt = [
                str(alias) for alias, housekeeping in left.items() if housekeeping.work == REBUILD
            ]
            if rebuilt:
                full = (
                    " --full"
                    if any(housekeeping.mode == FULL for housekeeping in left.values())
                    else ""
                )
                hint(f"Afterwards: odfbuild rebuild {' '.join(rebuilt)}{full}\n")
    if not failed:
        return exits.DONE
    if len(left) < len(steps):
        return exits.PARTLY
    codes = {exits.exit_code(each.error) for each in failed if each.error is not None}
    return codes.pop() if len(codes) == 1 else exits.ERROR
