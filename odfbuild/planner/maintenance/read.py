"""Read what `undo`, `reset`, `compact` and `rebuild` saved, to be looked at again.  Pure."""

from collections.abc import Mapping
from typing import Any

from odfbuild.odf.events import DatasetKind
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.maintenance import batch as housekeeping_plan
from odfbuild.planner.maintenance import rewrite as housekeeping
from odfbuild.planner.maintenance import undo
from odfbuild.planner.maintenance.batch import HousekeepingPlan
from odfbuild.planner.maintenance.compaction import Limits
from odfbuild.planner.maintenance.rewrite import Extent, Housekeeping, Stranded
from odfbuild.planner.maintenance.undo import Back, Undo
from odfbuild.planner.plan.read import DamagedPlanError, PlanObject, PlanVersionError


def is_housekeeping(document: object) -> bool:
    """Say whether a saved plan is one of a reset, a compaction or a rebuild."""
    return isinstance(document, dict) and "housekeeping_version" in document


def is_undo(document: object) -> bool:
    """Say whether a saved plan takes a run back."""
    return isinstance(document, dict) and "undo_version" in document


def undo_from_json(document: Mapping[str, Any]) -> Undo:
    """Return a saved undo.  Raises PlanVersionError, DamagedPlanError."""
    whole = PlanObject(document)
    _refuse_version(whole, "undo_version", undo.FORMAT)
    found = Undo(
        run=whole.maybe_text("run"),
        project=whole.text("project"),
        target=whole.child("target").text("name"),
        workspace=whole.child("target").text("workspace"),
        steps=tuple(map(_back, whole.children("steps"))),
        diverging=tuple(map(_stranded, whole.children("diverging"))),
    )
    _refuse_changed(undo.undo_json(found), whole)
    return found


def housekeeping_from_json(document: Mapping[str, Any]) -> Housekeeping:
    """Return a saved reset, compaction or rebuild.  Raises PlanVersionError, DamagedPlanError."""
    return _housekeeping(PlanObject(document))


def housekeeping_plan_from_json(document: Mapping[str, Any]) -> HousekeepingPlan:
    """Return several of them, saved as one plan.  Raises PlanVersionError, DamagedPlanError."""
    whole = PlanObject(document)
    _refuse_version(whole, "housekeeping_version", housekeeping_plan.FORMAT)
    steps = tuple(map(_housekeeping, whole.children("steps")))
    if not steps:
        raise DamagedPlanError.at("steps", "there are none")
    found = HousekeepingPlan(steps)
    _refuse_changed(housekeeping_plan.several_json(found), whole)
    return found


def _housekeeping(whole: PlanObject) -> Housekeeping:
    _refuse_version(whole, "housekeeping_version", housekeeping.FORMAT)
    limits = whole.maybe_child("limits")
    marks = whole.child("watermark")
    found = Housekeeping(
        work=whole.text("work"),
        mode=whole.maybe_text("mode"),
        limits=None if limits is None else Limits(limits.number("bytes"), limits.number("records")),
        alias=whole.parsed("dataset", DatasetAlias.parse),
        id=whole.parsed("did", DatasetId.parse),
        kind=whole.member("kind", DatasetKind),
        project=whole.text("project"),
        target=whole.child("target").text("name"),
        workspace=whole.child("target").text("workspace"),
        based_on=whole.parsed("base_head", Multihash.parse),
        head=whole.maybe_parsed("new_head", Multihash.parse),
        kept=whole.number("kept_blocks"),
        before=_extent(whole.child("before")),
        after=_extent(whole.child("after")),
        watermarks=(
            marks.maybe_parsed("before", Timestamp.parse),
            marks.maybe_parsed("after", Timestamp.parse),
        ),
        dropped=_counts(whole, "dropped"),
        stranded=tuple(map(_stranded, whole.children("stranded"))),
        reads=_reads(whole) if whole.has("reads") else {},
        definition=whole.parsed("definition", Multihash.parse) if whole.has("definition") else None,
    )
    _refuse_changed(housekeeping.rewrite_json(found), whole)
    return found


def _back(step: PlanObject) -> Back:
    return Back(
        alias=step.parsed("dataset", DatasetAlias.parse),
        id=step.parsed("did", DatasetId.parse),
        kind=step.member("kind", DatasetKind),
        expected=step.maybe_parsed("base_head", Multihash.parse),
        to=step.maybe_parsed("new_head", Multihash.parse),
        old_name=step.maybe_parsed("old_name", DatasetAlias.parse),
        blocks=step.number("blocks"),
        records=step.number("records"),
    )


def _stranded(each: PlanObject) -> Stranded:
    return Stranded(
        dataset=each.parsed("dataset", DatasetAlias.parse),
        block=each.parsed("block", Multihash.parse),
        offset=None if each.raw("offset") is None else each.number("offset"),
        readers=each.each_parsed("readers", DatasetAlias.parse),
    )


def _extent(found: PlanObject) -> Extent:
    size = None if found.raw("bytes") is None else found.number("bytes")
    blocks, slices, records = (found.number(key) for key in ("blocks", "slices", "records"))
    return Extent(blocks, slices, records, size)


def _counts(whole: PlanObject, key: str) -> Mapping[str, int]:
    counts, of = whole.child(key), whole.raw(key)
    return {name: counts.number(name) for name in of}


def _reads(whole: PlanObject) -> Mapping[str, int | None]:
    counts, of = whole.child("reads"), whole.raw("reads")
    return {name: None if counts.raw(name) is None else counts.number(name) for name in of}


def _refuse_version(whole: PlanObject, key: str, known: str) -> None:
    version = whole.text(key)
    if version.partition(".")[0] != known.partition(".")[0]:
        raise PlanVersionError(
            what=f"the plan has {key} {version}, and this program reads {known}",
            why="a later version may mean other things by the same words",
            fix="look at it with the version that wrote it, or save it again",
        )


def _refuse_changed(again: Mapping[str, Any], whole: PlanObject) -> None:
    if again["plan_hash"] != whole.text("plan_hash"):
        raise DamagedPlanError.at("plan_hash", "it is not as it was written")
