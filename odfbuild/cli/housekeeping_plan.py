"""odfbuild reset, compact and rebuild of several datasets: one plan, one question, one by one."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odfbuild import app
from odfbuild.app.housekeeping import HARD, Compaction, Prepared, Rebuild, Wish, check_files
from odfbuild.app.housekeeping_plan import (
    Outcome,
    PreparedAll,
    carry_out_all,
    inputs_of,
    made_anew,
    prepare_all,
)
from odfbuild.cli import exits
from odfbuild.cli.busy import reserved
from odfbuild.cli.confirm import confirm
from odfbuild.cli.diagnostics import render_diagnostics
from odfbuild.cli.housekeeping import Manner, command_of, idle_text, read_wish, stranded_lines, tell
from odfbuild.cli.loudness import hint
from odfbuild.cli.options import OnBusy
from odfbuild.cli.selection import chosen_existing
from odfbuild.cli.words import count, kind_word
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.housekeeping import FULL, REBUILD, Extent, Housekeeping
from odfbuild.planner.housekeeping_plan import HousekeepingPlan, to_json

__all__ = ["apply_saved_plan", "housekeep_selected", "several_lines"]

_MOST_NAMES = 6


def housekeep_selected(
    project: app.Opened,
    selectors: Sequence[str],
    exclude: Sequence[str],
    wish: Wish,
    manner: Manner,
) -> int:
    """Print what a wish will do to selected datasets; then save it, or ask and do it."""
    wishes, unfit = _wishes(project, selectors, exclude, wish)
    prepared = prepare_all(project, wishes, downstream=manner.downstream)
    if manner.only_told or not prepared.steps:
        return _prepared(project, prepared, unfit, wish, manner)
    written, read = _names(project, prepared.steps)
    with reserved(project, written, read, command=command_of(wish), on_busy=manner.on_busy) as mine:
        if mine.busy and manner.on_busy == OnBusy.SKIP:
            wishes = {alias: each for alias, each in wishes.items() if alias not in mine.busy}
        if mine.waited or mine.busy:
            prepared = prepare_all(project, wishes, downstream=manner.downstream)
            prepared = PreparedAll(_without(prepared.steps, mine.busy), prepared.idle)
        return _prepared(project, prepared, unfit, wish, manner)


def apply_saved_plan(project: app.Opened, document: dict[str, Any], on_busy: str) -> int:
    """Do exactly what was saved; StalePlanError, with nothing done, if it would now be another."""
    from odfbuild.executors.runner import StalePlanError
    from odfbuild.planner.back_reader import housekeeping_plan_from_json

    saved = housekeeping_plan_from_json(document)
    asked = [read_wish(project, each) for each in document["steps"]]
    wishes = {DatasetAlias.parse(name): wish for name, wish in asked}
    written = {step.alias for step in saved.steps}
    inputs = {DatasetAlias.parse(name) for step in saved.steps for name in step.reads}
    with reserved(project, written, inputs - written, command="apply", on_busy=on_busy) as mine:
        prepared = prepare_all(project, wishes, downstream=False)
        plan = _plan(prepared.steps) if prepared.steps else None
        if mine.busy or plan is None or to_json(plan) != document:
            raise StalePlanError(
                what="the datasets are not where the plan found them, or are read by others",
                why="a saved plan is carried out as it was reviewed, or not at all",
                fix="save it again, with --out FILE",
            )
        tell(document, several_lines(plan), Manner())
        return _done(project, prepared.steps, as_json=False)


def several_lines(plan: HousekeepingPlan) -> Iterator[str]:
    """Yield what will happen, a line a dataset, in the order in which it is done."""
    steps = plan.steps
    yield f"{count(len(steps), 'dataset')}{', in this order' if len(steps) > 1 else ''}:"
    yield ""
    works = [_work(step) for step in steps]
    wide, widest = (max(map(len, each)) for each in (works, [str(step.alias) for step in steps]))
    for step, work in zip(steps, works, strict=True):
        kind = kind_word(step.kind)
        yield f"  {work:<{wide}}  {step.alias!s:<{widest}}  {kind:<10}  {_what(step)}"
    yield ""
    dropped = Counter[str]()
    for step in steps:
        dropped.update(step.dropped)
    if dropped:
        shown = ", ".join(f"{number:,} {kind}" for kind, number in sorted(dropped.items()))
        yield f"Given up: {shown}. Their files are left where they are, until gc."
    if any(step.work == "reset" for step in steps):
        yield "The next apply goes on from there: it reads again what was taken in since."
    if any(step.mode == FULL for step in steps):
        yield "A new chain is begun by the definition in the project: its columns may be of other"
        yield "types. A root has then what its source has now, and no more."
    if plan.stranded:
        yield ""
        yield from stranded_lines(plan.stranded, "", ["..."], steps[0].work)


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
    project: app.Opened, steps: Sequence[Prepared]
) -> tuple[set[DatasetAlias], set[DatasetAlias]]:
    """Return the names of the datasets that steps change, and of those that they only read."""
    written = {step.told.alias for step in steps}
    names = {state.dataset: alias for alias, state in project.workspace.states().items()}
    read = {names[id] for step in steps for id in inputs_of(step) if id in names}
    return written, read - written


def _without(
    steps: Sequence[Prepared], busy: Sequence[DatasetAlias] | frozenset[DatasetAlias]
) -> tuple[Prepared, ...]:
    """Leave out the steps of some datasets, and those that make anew what is made of these."""
    gone, left = set(busy), list[Prepared]()
    for step in steps:
        if step.told.alias in gone or any(DatasetAlias.parse(n) in gone for n in step.told.reads):
            gone.add(step.told.alias)
        else:
            left.append(step)
    return tuple(left)


def _prepared(
    project: app.Opened,
    prepared: PreparedAll,
    unfit: Sequence[DatasetAlias],
    wish: Wish,
    manner: Manner,
) -> int:
    for aliases, why in ((prepared.idle, idle_text(wish)), (unfit, _unfit_text(wish))):
        if aliases:
            sys.stderr.write(f"Left out: {_listed(aliases)}: {why}.\n")
    steps = prepared.steps
    if not steps:
        (sys.stderr if manner.as_json else sys.stdout).write("Nothing to do.\n")
        return exits.DONE
    plan = _plan(steps)
    if manner.only_told:
        anew = made_anew(steps)
        for step in steps:
            check_files(project, step, anew)
    tell(to_json(plan), several_lines(plan), manner)
    if manner.only_told:
        return exits.DONE
    if not manner.yes:
        confirm(command_of(wish))
    return _done(project, steps, as_json=manner.as_json)


def _plan(steps: Sequence[Prepared]) -> HousekeepingPlan:
    return HousekeepingPlan(tuple(step.told for step in steps))


def _unfit_text(wish: Wish) -> str:
    if isinstance(wish, Rebuild):
        return "root datasets are not made of others"
    return "slices of derivative datasets are not merged"


def _listed(names: Sequence[object]) -> str:
    more = len(names) - _MOST_NAMES
    shown = ", ".join(map(str, names[:_MOST_NAMES]))
    return f"{shown} and {more:,} more" if more > 0 else shown


def _done(project: app.Opened, steps: Sequence[Prepared], *, as_json: bool) -> int:
    """Do all; say what became of each, and, however it ends, what is left to be done."""
    out = sys.stderr if as_json else sys.stdout
    left = {step.told.alias: step.told for step in steps}
    failed: list[Outcome] = []
    try:
        for each in carry_out_all(project, steps):
            told = each.step.told
            if each.head is not None:
                del left[told.alias]
                out.write(f"\n{told.alias}  {each.head}  (was {told.based_on})\n")
                out.flush()
            elif each.error is not None:
                failed.append(each)
                sys.stderr.write(f"{render_diagnostics(each.error.diagnostics())}\n")
    finally:
        if left:
            sys.stderr.write(f"Not done: {_listed(list(left))}.\n")
            anew = [str(alias) for alias, told in left.items() if told.work == REBUILD]
            if anew:
                full = " --full" if any(told.mode == FULL for told in left.values()) else ""
                hint(f"Once it can be: odfbuild rebuild {' '.join(anew)}{full}\n")
    if not failed:
        return exits.DONE
    if len(left) < len(steps):
        return exits.PARTLY
    codes = {exits.exit_code(each.error) for each in failed if each.error is not None}
    return codes.pop() if len(codes) == 1 else exits.ERROR


def _work(step: Housekeeping) -> str:
    return "empty" if step.work == "compact" and step.limits is None else step.work


def _what(step: Housekeeping) -> str:
    before = _size(step.before)
    if step.work != REBUILD:
        return f"{before} → {_size(step.after)}"
    read = ", ".join(
        f"all records of {name}" if number is None else f"{count(number, 'record')} of {name}"
        for name, number in step.reads.items()
    )
    source = "its source" if step.kind is DatasetKind.ROOT else "inputs that are not there"
    how = "new chain" if step.mode == FULL else "anew"
    return f"{before}; {how} from {read or source}"


def _size(extent: Extent) -> str:
    sizes = ((extent.blocks, "block"), (extent.slices, "slice"), (extent.records, "record"))
    return ", ".join(count(number, word) for number, word in sizes)
