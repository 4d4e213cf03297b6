"""Plans of resets, compactions, rebuilds and undos as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from odfbuild.cli.render.words import bytes_text, count, kind_word
from odfbuild.odf.events import DatasetKind
from odfbuild.planner.maintenance.rewrite import (
    COMPACT,
    FULL,
    REBUILD,
    RESET,
    Extent,
    Housekeeping,
    Stranded,
    rebuild_places_text,
)
from odfbuild.planner.maintenance.undo import HeadReturn, Undo

if TYPE_CHECKING:
    from odfbuild.odf.timestamp import Timestamp
    from odfbuild.planner.maintenance.batch import HousekeepingPlan


def maintenance_lines(plan: Undo | HousekeepingPlan) -> Iterator[str]:
    """Yield what will happen, line by line."""
    if isinstance(plan, Undo):
        yield from _undo_lines(plan)
    elif plan.alone:
        yield from _step_lines(plan.steps[0])
    else:
        yield from _lines_of_all(plan)


def _step_lines(rewrite: Housekeeping) -> Iterator[str]:
    yield f"{rewrite.alias}  ({kind_word(rewrite.kind)}): {_headline(rewrite)}"
    yield ""
    yield from _extents(rewrite)
    yield ""
    yield from _meaning(rewrite)
    if rewrite.stranded:
        yield ""
        yield from _stranded_lines(
            rewrite.stranded, f"of {rewrite.alias} ", [str(rewrite.alias)], rewrite.work
        )


def _headline(rewrite: Housekeeping) -> str:
    if rewrite.head is not None:
        return f"reset to block {rewrite.after.blocks - 1:,}, {rewrite.head.short()}"
    if rewrite.work == REBUILD:
        return "rebuild all data"
    if rewrite.limits is None:
        return "compact, keeping metadata only"
    size, records = bytes_text(rewrite.limits.size), rewrite.limits.records
    return f"compact, merging slices up to {count(records, 'record')} and {size}"


def _extents(rewrite: Housekeeping) -> Iterator[str]:
    before, after = rewrite.before, rewrite.after
    size = "about as many" if after.size is None else bytes_text(after.size)
    rows = [
        ("", "before", "kept" if rewrite.work == REBUILD else "after"),
        ("blocks", f"{before.blocks:,}", f"{after.blocks:,}"),
        ("slices", f"{before.slices:,}", f"{after.slices:,}"),
        ("records", f"{before.records:,}", f"{after.records:,}"),
        ("bytes", bytes_text(before.size or 0), size),
        ("watermark", *(str(each or "none") for each in _watermarks(rewrite))),
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    for row in rows:
        yield f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}".rstrip()


def _watermarks(rewrite: Housekeeping) -> tuple[Timestamp | None, Timestamp | None]:
    before, after = rewrite.watermarks
    return before, None if rewrite.work == REBUILD else after


def _meaning(rewrite: Housekeeping) -> Iterator[str]:
    yield f"{count(rewrite.kept, 'block')} stay as they are, with the objects that they name."
    if rewrite.dropped:
        shown = ", ".join(f"{number:,} {kind}" for kind, number in rewrite.dropped.items())
        yield f"Dropped: {shown}. Their files are not deleted."
    if rewrite.work == RESET:
        yield "The next apply continues from that block, and ingests again what was ingested since."
    elif rewrite.work == REBUILD:
        read = ", ".join(
            f"{count(number or 0, 'record')} of {name}" for name, number in rewrite.reads.items()
        )
        source = read or "inputs that do not exist"
        yield f"Then all data is rebuilt, from {source}{_by_what(rewrite)}."
    elif rewrite.limits is None:
        yield "The next apply rebuilds all data from the first record."
    else:
        yield "Rows, offsets, watermark and source states stay; later blocks get new hashes."


def _stranded_lines(
    stranded: Sequence[Stranded], whose: str, names: Sequence[str], work: str
) -> Iterator[str]:
    """Yield who cannot go on after some work on datasets, and how they can be rebuilt with it."""
    which = count(len(stranded), "dataset")
    yield f"{which} cannot continue then, because the last block read {whose}is gone:"
    width = max(len(str(each.dataset)) for each in stranded)
    for each in stranded:
        yield f"  ! {each.dataset!s:<{width}}  {_read_so_far(each)}"
    more = "all of these" if any(each.readers for each in stranded) else "them"
    yield f"To rebuild {more} in the same plan: odfbuild {work} {' '.join(names)} --downstream."


def _read_so_far(each: Stranded) -> str:
    read = "no records" if each.offset is None else f"read up to offset {each.offset:,}"
    more = f"; then also {', '.join(map(str, each.readers))}" if each.readers else ""
    return f"{read}{more}"


def _lines_of_all(plan: HousekeepingPlan) -> Iterator[str]:
    """Yield a line a dataset, in the order in which it is done."""
    steps = plan.steps
    yield f"{count(len(steps), 'dataset')}{', in this order' if len(steps) > 1 else ''}:"
    yield ""
    works = [_work(step) for step in steps]
    wide, widest = (max(map(len, each)) for each in (works, [str(step.alias) for step in steps]))
    for step, work in zip(steps, works, strict=True):
        kind = kind_word(step.kind)
        yield f"  {work:<{wide}}  {step.alias!s:<{widest}}  {kind:<10}  {_what_each(step)}"
    yield ""
    dropped = Counter[str]()
    for step in steps:
        dropped.update(step.dropped)
    if dropped:
        shown = ", ".join(f"{number:,} {kind}" for kind, number in sorted(dropped.items()))
        yield f"Dropped: {shown}. Their files stay until gc."
    if any(step.work == RESET for step in steps):
        yield "The next apply continues from there, and ingests again what was ingested since."
    if any(step.mode == FULL for step in steps):
        yield "A new chain begins with the definition in the project: columns may have other"
        yield "types. A root then has only what its source has now."
    if plan.stranded:
        yield ""
        yield from _stranded_lines(plan.stranded, "", ["..."], steps[0].work)


def _work(step: Housekeeping) -> str:
    return "empty" if step.work == COMPACT and step.limits is None else step.work


def _what_each(step: Housekeeping) -> str:
    before = _size(step.before)
    if step.work != REBUILD:
        return f"{before} → {_size(step.after)}"
    read = ", ".join(
        f"all records of {name}" if number is None else f"{count(number, 'record')} of {name}"
        for name, number in step.reads.items()
    )
    source = "its source" if step.kind is DatasetKind.ROOT else "inputs that do not exist"
    how = "new chain" if step.mode == FULL else "rebuilt"
    return f"{before}; {how} from {read or source}{_by_what(step)}"


def _by_what(step: Housekeeping) -> str:
    """Say where the rows of a rebuild are made, and by which version if that is another one."""
    there = rebuild_places_text(step)
    before, after = step.versions or ("", "")
    version = f"by {after} of its engine, not {before}" if after else ""
    return "".join(f", {each}" for each in (there, version) if each)


def _size(extent: Extent) -> str:
    sizes = ((extent.blocks, "block"), (extent.slices, "slice"), (extent.records, "record"))
    return ", ".join(count(number, word) for number, word in sizes)


def _undo_lines(undo: Undo) -> Iterator[str]:
    if not undo.steps and undo.run is None:
        yield "Nothing to do."
        return
    if not undo.steps:
        yield f"Nothing to do: no dataset is still at the head that the run {undo.run} wrote."
        return
    if undo.run is None:
        yield f"Retire {count(len(undo.steps), 'dataset')}:"
    else:
        yield f"Undo of the run {undo.run}"
    yield ""
    width = max(len(str(each.alias)) for each in undo.steps)
    for each in undo.steps:
        kind = kind_word(each.kind)
        yield f"  {_mark(each)} {each.alias!s:<{width}}  {kind:<10}  {_what(undo, each)}"
    yield ""
    if undo.run is None:
        yield (
            "Their names and heads are removed; keys stay, and so do copies elsewhere. An apply "
            "that"
        )
        yield "declares one of the names creates another dataset, with another id."
    elif any(each.to is None for each in undo.steps):
        yield "Datasets that the run created are removed: names and heads are deleted, and an apply"
        yield "that declares one creates another dataset, with another id."
    if any(each.to is not None and each.expected is not None for each in undo.steps):
        yield "The next apply continues from there, and ingests again what was ingested since."
    yield "Blocks and files stay until gc."
    if undo.diverging:
        yield ""
        yield from _diverging(undo)


def _mark(step: HeadReturn) -> str:
    if step.to is None:
        return "-"
    return "+" if step.expected is None else "<"


def _what(undo: Undo, step: HeadReturn) -> str:
    if step.to is None:
        made = "" if undo.run is None else "was created by the run; "
        return f"{made}drops {_given_up(step)}"
    if step.expected is None:
        return f"is restored, head {step.to.short()}"
    named = "" if step.old_name is None else f"; is called {step.old_name} again"
    if step.to == step.expected:
        return f"keeps its head{named}"
    given_up = f"; drops {_given_up(step)}" if step.blocks else ""
    return f"head {step.expected.short()} → {step.to.short()}{given_up}{named}"


def _given_up(step: HeadReturn) -> str:
    return f"{count(step.blocks, 'block')}, {count(step.records, 'record')}"


def _diverging(undo: Undo) -> Iterator[str]:
    which = count(len({each.dataset for each in undo.diverging}), "dataset")
    yield f"{which} cannot continue then, because the last block read is gone:"
    width = max(len(str(each.dataset)) for each in undo.diverging)
    for each in undo.diverging:
        yield f"  ! {each.dataset!s:<{width}}  {_sources_read(each)}"
    if undo.run is None:
        yield "They are not declared either: retire them, too, or their data stays as it is."
    else:
        yield "Undo the later runs that read it first, or: odfbuild rebuild NAME"


def _sources_read(each: Stranded) -> str:
    read = "no records yet" if each.offset is None else f"read up to offset {each.offset:,}"
    more = f"; then also {', '.join(map(str, each.readers))}" if each.readers else ""
    return f"{read}{more}"
