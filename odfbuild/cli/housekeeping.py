"""odfbuild reset, compact and rebuild: say what will happen and to whom, ask, and do it."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import Any

from odfbuild import app
from odfbuild.app.housekeeping import (
    Compaction,
    Prepared,
    Rebuild,
    Reset,
    Wish,
    carry_out,
    check_files,
    prepare,
)
from odfbuild.cli import exits
from odfbuild.cli.act import UnfitPlanError
from odfbuild.cli.busy import Reserved, reserved
from odfbuild.cli.confirm import confirm
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given, OnBusy
from odfbuild.cli.printable import printable, printable_json
from odfbuild.cli.usage import UsageRefusedError
from odfbuild.cli.words import bytes_text, count, kind_word
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.compaction import DEFAULT_LIMITS, Limits
from odfbuild.planner.housekeeping import FULL, REBUILD, Housekeeping, Stranded, to_json
from odfbuild.planner.housekeeping_plan import SEVERAL
from odfbuild.planner.plan_json import canonical
from odfbuild.planner.plan_object import DamagedPlanError

__all__ = [
    "Manner",
    "apply_saved",
    "command_of",
    "full_rebuild",
    "housekeep",
    "idle_text",
    "is_housekeeping",
    "plan_lines",
    "read_wish",
    "reset_at",
    "stranded_lines",
    "tell",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a command goes about it: what it prints, whether it asks, where it saves instead.

    `downstream` makes the datasets anew that cannot go on afterwards, and those after them.  A
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
    def only_told(self) -> bool:
        """Say whether nothing is done now."""
        return self.dry_run or self.out is not None


def housekeep(
    given: Given, selectors: Sequence[str], exclude: Sequence[str], wish: Wish, manner: Manner
) -> int:
    """Print what a wish will do to datasets; then save it, or ask and do it."""
    project = open_given(given, lock_timeout=manner.lock_timeout)
    if manner.full:
        wish = full_rebuild(project)
    if not manner.only_told:
        _refuse_unplanned(project, given, command_of(wish))
    only = _only_one(project, selectors)
    if only is None or exclude or manner.downstream or manner.full:
        from odfbuild.cli.housekeeping_plan import housekeep_selected

        return housekeep_selected(project, selectors, exclude, wish, manner)
    name = str(only)
    if manner.only_told:
        return _prepared(project, name, wish, manner)
    with _reserved(project, name, wish, manner.on_busy) as mine:
        return exits.DONE if mine.busy else _prepared(project, name, wish, manner)


def full_rebuild(project: app.Opened) -> Rebuild:
    """Return a rebuild by the definitions of the project.  Raises ProjectErrors."""
    return Rebuild({each.alias: each for each in app.load(project).declared})


def reset_at(text: str) -> Reset:
    """Return a reset to the last block up to a time.  Raises UsageRefusedError for no time."""
    from odfbuild.cli.watermark import moment

    now = Timestamp.from_millis(time_ns() // 1_000_000)
    return Reset(moment(text, now, why="the last block that is no later becomes the last one"))


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
def _reserved(project: app.Opened, name: str, wish: Wish, on_busy: str) -> Iterator[Reserved]:
    """Have a dataset; a rebuild reads its inputs."""
    states = project.workspace.states()
    alias = app.find_name(project, name)
    state = states.get(alias)
    read = set[DatasetAlias]()
    if state is not None and isinstance(wish, Rebuild):
        read = {other for other, each in states.items() if each.dataset in state.progress}
    with reserved(project, {alias}, read, command=command_of(wish), on_busy=on_busy) as mine:
        yield mine


def _prepared(project: app.Opened, name: str, wish: Wish, manner: Manner) -> int:
    prepared = prepare(project, name, wish)
    if prepared is None:
        out = sys.stderr if manner.as_json else sys.stdout
        out.write(f"{app.find_name(project, name)}  Nothing to do: {idle_text(wish)}.\n")
        return exits.DONE
    if manner.only_told:
        check_files(project, prepared)
    tell(to_json(prepared.told), plan_lines(prepared.told), manner)
    if manner.only_told:
        return exits.DONE
    if not manner.yes:
        confirm(prepared.told.work)
    return _done(project, prepared, as_json=manner.as_json)


def tell(document: dict[str, Any], lines: Iterable[str], manner: Manner) -> None:
    """Print what will happen; save it where that was asked for."""
    if manner.as_json:
        text = json.dumps(document, indent=2, ensure_ascii=False)
        sys.stdout.write(f"{printable_json(text)}\n")
    else:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    sys.stdout.flush()
    if manner.out is not None:
        from odfbuild.cli.files import write_output

        write_output(manner.out, f"{canonical(document)}\n")


def command_of(wish: Wish) -> str:
    """Return the name of the command that asks for it."""
    match wish:
        case Reset():
            return "reset"
        case Compaction():
            return "compact"
        case Rebuild():
            return "rebuild"


def is_housekeeping(document: object) -> bool:
    """Say whether a saved plan is one of a reset, a compaction or a rebuild."""
    return isinstance(document, dict) and "housekeeping_version" in document


def apply_saved(given: Given, document: dict[str, Any], lock_timeout: float, on_busy: str) -> int:
    """Do exactly what was saved; StalePlanError, with nothing done, if it would now be another."""
    from dataclasses import replace

    target = _target(document)
    project = open_given(replace(given, target=given.target or target), lock_timeout=lock_timeout)
    _refuse_unfit(document, project)
    if document.get("work") == SEVERAL:
        from odfbuild.cli.housekeeping_plan import apply_saved_plan

        return apply_saved_plan(project, document, on_busy)
    name, wish = read_wish(project, document)
    with _reserved(project, name, wish, on_busy) as mine:
        return exits.DONE if mine.busy else _do_saved(project, document, name, wish)


def _do_saved(project: app.Opened, document: dict[str, Any], name: str, wish: Wish) -> int:
    from odfbuild.executors.runner import StalePlanError

    prepared = prepare(project, name, wish)
    if prepared is None or to_json(prepared.told) != document:
        raise StalePlanError(
            what=f"{name} is not where the plan found it, or is read by others than then",
            why="a saved plan is carried out as it was reviewed, or not at all",
            fix=f"save it again: odfbuild {command_of(wish)} with --out FILE",
        )
    tell(document, plan_lines(prepared.told), Manner())
    return _done(project, prepared, as_json=False)


def plan_lines(told: Housekeeping) -> Iterator[str]:
    """Yield what will happen, line by line."""
    yield f"{told.alias}  ({kind_word(told.kind)}): {_headline(told)}"
    yield ""
    yield from _extents(told)
    yield ""
    yield from _meaning(told)
    if told.stranded:
        yield ""
        yield from stranded_lines(told.stranded, f"of {told.alias} ", [str(told.alias)], told.work)


def _done(project: app.Opened, prepared: Prepared, *, as_json: bool) -> int:
    head = carry_out(project, prepared)
    told = prepared.told
    out = sys.stderr if as_json else sys.stdout
    out.write(f"\n{told.alias}  {head}  (was {told.based_on})\n")
    return exits.DONE


def idle_text(wish: Wish) -> str:
    """Say why there is nothing to do."""
    match wish:
        case Reset():
            return "it ends there"
        case Compaction():
            return "there is nothing to compact"
        case Rebuild():
            return "it has no data yet, and apply makes it"


def _headline(told: Housekeeping) -> str:
    if told.head is not None:
        return f"reset to block {told.after.blocks - 1:,}, {told.head.short()}"
    if told.work == REBUILD:
        return "make all data anew"
    if told.limits is None:
        return "compact, keeping metadata only"
    size, records = bytes_text(told.limits.size), told.limits.records
    return f"compact, merging slices up to {count(records, 'record')} and {size}"


def _extents(told: Housekeeping) -> Iterator[str]:
    before, after = told.before, told.after
    size = "about as many" if after.size is None else bytes_text(after.size)
    rows = [
        ("", "before", "kept" if told.work == REBUILD else "after"),
        ("blocks", f"{before.blocks:,}", f"{after.blocks:,}"),
        ("slices", f"{before.slices:,}", f"{after.slices:,}"),
        ("records", f"{before.records:,}", f"{after.records:,}"),
        ("bytes", bytes_text(before.size or 0), size),
        ("watermark", *(str(each or "none") for each in _watermarks(told))),
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    for row in rows:
        yield f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}".rstrip()


def _watermarks(told: Housekeeping) -> tuple[Timestamp | None, Timestamp | None]:
    before, after = told.watermarks
    return before, None if told.work == REBUILD else after


def _meaning(told: Housekeeping) -> Iterator[str]:
    yield f"{count(told.kept, 'block')} stay as they are; what they name stays, too."
    if told.dropped:
        shown = ", ".join(f"{number:,} {kind}" for kind, number in told.dropped.items())
        yield f"Given up: {shown}. Their files are left where they are."
    if told.work == "reset":
        yield "The next apply goes on from that block: it reads again what was taken in since."
    elif told.work == REBUILD:
        read = ", ".join(
            f"{count(number or 0, 'record')} of {name}" for name, number in told.reads.items()
        )
        yield f"Then all data is made anew, from {read or 'inputs that are not there'}."
    elif told.limits is None:
        yield "The next apply makes all data anew, from the first record on."
    else:
        yield "Rows, offsets, watermark and source states stay; later blocks get new hashes."


def stranded_lines(
    stranded: Sequence[Stranded], whose: str, names: Sequence[str], work: str
) -> Iterator[str]:
    """Yield who cannot go on after some work on datasets, and how they can be made anew with it."""
    which = count(len(stranded), "dataset")
    yield f"{which} cannot go on then, because the last block read {whose}is gone:"
    width = max(len(str(each.dataset)) for each in stranded)
    for each in stranded:
        yield f"  ! {each.dataset!s:<{width}}  {_read_so_far(each)}"
    more = "all of these" if any(each.readers for each in stranded) else "them"
    yield f"To make {more} anew in the same plan: odfbuild {work} {' '.join(names)} --downstream."


def _read_so_far(each: Stranded) -> str:
    read = "no records" if each.offset is None else f"read up to offset {each.offset:,}"
    more = f"; then also {', '.join(map(str, each.readers))}" if each.readers else ""
    return f"{read}{more}"


def _refuse_unplanned(project: app.Opened, given: Given, command: str) -> None:
    """Keep to what the target asks for before anything is told and done in one go."""
    target = project.config.target(project.target)
    if target.require_plan_file:
        raise UsageRefusedError(
            what=f"the target '{target.name}' is changed by saved plans only",
            why="odfbuild.yaml says require_plan_file: what is done was reviewed before",
            fix=f"odfbuild {command} ... --out plan.json, then: odfbuild apply plan.json",
        )
    if target.protect and given.target != target.name:
        raise UsageRefusedError(
            what=f"the target '{target.name}' is protected, and was not named",
            why="odfbuild.yaml says protect: it is never changed by default",
            fix=f"name it: odfbuild {command} --target {target.name} ...",
        )


def _refuse_unfit(document: dict[str, Any], project: app.Opened) -> None:
    here = {
        "project": project.config.name,
        "target": {
            "name": project.target,
            "workspace": project.config.target(project.target).workspace,
        },
    }
    for key, found in here.items():
        if document.get(key) != found:
            raise UnfitPlanError(
                what=f"the plan is for the {key} {document.get(key)}, and this is {found}",
                why="a saved plan is carried out where it was made for, or not at all",
                fix="apply it there, or plan again here",
            )


def _target(document: dict[str, Any]) -> str:
    try:
        return str(document["target"]["name"])
    except (LookupError, TypeError) as error:
        raise DamagedPlanError.at("housekeeping_version", "something is missing") from error


def read_wish(project: app.Opened, document: Mapping[str, Any]) -> tuple[str, Wish]:
    """Return what a saved plan asks of which dataset.  Raises DamagedPlanError."""
    try:
        name = str(document["dataset"])
        DatasetAlias.parse(name)
        if document["work"] == "reset":
            return name, Reset(str(document["new_head"]))
        if document["work"] == REBUILD:
            return name, full_rebuild(project) if document["mode"] == FULL else Rebuild()
        limits = document["limits"]
        most = Limits(int(limits["bytes"]), int(limits["records"])) if limits else DEFAULT_LIMITS
        return name, Compaction(str(document["mode"]), most)
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedPlanError.at("housekeeping_version", "something is missing") from error
