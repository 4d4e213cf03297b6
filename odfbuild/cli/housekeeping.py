"""odfbuild reset, compact and rebuild: say what will happen and to whom, ask, and do it."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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
from odfbuild.cli.printable import printable_json
from odfbuild.cli.rebuilding import rebuild_readers
from odfbuild.cli.usage import UsageRefusedError
from odfbuild.cli.words import bytes_text, count, kind_word
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.compaction import DEFAULT_LIMITS, Limits
from odfbuild.planner.housekeeping import REBUILD, Housekeeping, Stranded, readers, to_json
from odfbuild.planner.plan_json import canonical
from odfbuild.planner.plan_object import DamagedPlanError

__all__ = ["Manner", "apply_saved", "housekeep", "is_housekeeping", "plan_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a command goes about it: what it prints, whether it asks, where it saves instead.

    `downstream` goes on with the datasets that cannot go on afterwards, and with those after them.
    """

    yes: bool = False
    dry_run: bool = False
    as_json: bool = False
    out: Path | None = None
    lock_timeout: float = 10.0
    downstream: bool = False
    on_busy: str = OnBusy.WAIT


def housekeep(given: Given, name: str, wish: Wish, manner: Manner) -> int:
    """Print what a wish will do to a dataset; then save it, or ask and do it."""
    if manner.downstream and (manner.as_json or manner.out is not None):
        raise UsageRefusedError(
            what="--downstream does not go with --out or -o json",
            why="what becomes of a dataset is known once the one before it was made anew",
            fix="save or print one dataset at a time, without --downstream",
        )
    project = open_given(given, lock_timeout=manner.lock_timeout)
    only_told = manner.dry_run or manner.out is not None
    if not only_told:
        _refuse_unplanned(project, given, _command(wish))
    if only_told:
        return _prepared(project, name, wish, manner)
    with _reserved(project, name, wish, manner.on_busy, downstream=manner.downstream) as mine:
        return exits.DONE if mine.busy else _prepared(project, name, wish, manner)


@contextmanager
def _reserved(
    project: app.Opened, name: str, wish: Wish, on_busy: str, *, downstream: bool = False
) -> Iterator[Reserved]:
    """Have a dataset, with `downstream` also what is made of it; a rebuild reads its inputs."""
    states = project.workspace.states()
    alias = app.find_name(project, name)
    state = states.get(alias)
    written, read = {alias}, set[DatasetAlias]()
    if state is not None and downstream:
        written |= readers(state.dataset, states)
    if state is not None and isinstance(wish, Rebuild):
        read = {other for other, each in states.items() if each.dataset in state.progress}
    with reserved(
        project, written, read - written, command=_command(wish), on_busy=on_busy
    ) as mine:
        yield mine


def _prepared(project: app.Opened, name: str, wish: Wish, manner: Manner) -> int:
    prepared = prepare(project, name, wish)
    if prepared is None:
        return _idle(project, name, wish, manner)
    _tell(prepared.told, as_json=manner.as_json, downstream=manner.downstream)
    if manner.dry_run or manner.out is not None:
        check_files(project, prepared)
    if manner.out is not None:
        from odfbuild.cli.files import write_output

        write_output(manner.out, f"{canonical(to_json(prepared.told))}\n")
    if manner.dry_run or manner.out is not None:
        return exits.DONE
    if not manner.yes:
        confirm(prepared.told.work)
    done = _done(project, prepared, as_json=manner.as_json)
    if manner.downstream:
        rebuild_readers(project, prepared.told.id, _done)
    return done


def _command(wish: Wish) -> str:
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

    name, target, wish = _read(document)
    project = open_given(replace(given, target=given.target or target), lock_timeout=lock_timeout)
    _refuse_unfit(document, project)
    with _reserved(project, name, wish, on_busy) as mine:
        return exits.DONE if mine.busy else _do_saved(project, document, name, wish)


def _do_saved(project: app.Opened, document: dict[str, Any], name: str, wish: Wish) -> int:
    from odfbuild.executors.runner import StalePlanError

    prepared = prepare(project, name, wish)
    if prepared is None or to_json(prepared.told) != document:
        raise StalePlanError(
            what=f"{name} is not where the plan found it, or is read by others than then",
            why="a saved plan is carried out as it was reviewed, or not at all",
            fix=f"save it again: odfbuild {_command(wish)} with --out FILE",
        )
    _tell(prepared.told, as_json=False)
    return _done(project, prepared, as_json=False)


def plan_lines(told: Housekeeping, *, downstream: bool = False) -> Iterator[str]:
    """Yield what will happen, line by line; `downstream` as in `Manner`."""
    yield f"{told.alias}  ({kind_word(told.kind)}): {_headline(told)}"
    yield ""
    yield from _extents(told)
    yield ""
    yield from _meaning(told)
    if told.stranded:
        yield ""
        yield from _stranded(told, downstream=downstream)


def _tell(told: Housekeeping, *, as_json: bool, downstream: bool = False) -> None:
    if as_json:
        document = json.dumps(to_json(told), indent=2, ensure_ascii=False)
        sys.stdout.write(f"{printable_json(document)}\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in plan_lines(told, downstream=downstream)))
    sys.stdout.flush()


def _done(project: app.Opened, prepared: Prepared, *, as_json: bool) -> int:
    head = carry_out(project, prepared)
    told = prepared.told
    out = sys.stderr if as_json else sys.stdout
    out.write(f"\n{told.alias}  {head}  (was {told.based_on})\n")
    return exits.DONE


def _idle(project: app.Opened, name: str, wish: Wish, manner: Manner) -> int:
    whys = {"reset": "it ends there", "compact": "there is nothing to compact",
            "rebuild": "it has no data yet, and apply makes it"}  # fmt: skip
    why = whys[_command(wish)]
    out = sys.stderr if manner.as_json else sys.stdout
    out.write(f"{app.find_name(project, name)}  Nothing to do: {why}.\n")
    return exits.DONE


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
            f"{count(number, 'record')} of {name}" for name, number in told.reads.items()
        )
        yield f"Then all data is made anew, from {read or 'inputs that are not there'}."
    elif told.limits is None:
        yield "The next apply makes all data anew, from the first record on."
    else:
        yield "Rows, offsets, watermark and source states stay; later blocks get new hashes."


def _stranded(told: Housekeeping, *, downstream: bool) -> Iterator[str]:
    which = count(len(told.stranded), "dataset")
    yield f"{which} cannot go on then, because the last block read of {told.alias} is gone:"
    width = max(len(str(each.dataset)) for each in told.stranded)
    for each in told.stranded:
        yield f"  ! {each.dataset!s:<{width}}  {_read_so_far(each)}"
    if downstream:
        yield "These are made anew as well, one after the other."
    elif told.work == REBUILD:
        yield f"To make all of these anew as well: odfbuild rebuild {told.alias} --downstream."
    else:
        first = told.stranded[0].dataset
        more = " --downstream" if any(each.readers for each in told.stranded) else ""
        yield f"To make each anew: odfbuild rebuild {first}{more}."


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


def _read(document: dict[str, Any]) -> tuple[str, str, Wish]:
    """Return what a saved plan asks for: dataset, target, wish.  Raises DamagedPlanError."""
    try:
        name, target = str(document["dataset"]), str(document["target"]["name"])
        DatasetAlias.parse(name)
        if document["work"] == "reset":
            return name, target, Reset(str(document["new_head"]))
        if document["work"] == REBUILD:
            return name, target, Rebuild()
        limits = document["limits"]
        most = Limits(int(limits["bytes"]), int(limits["records"])) if limits else DEFAULT_LIMITS
        return name, target, Compaction(str(document["mode"]), most)
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedPlanError.at("housekeeping_version", "something is missing") from error
