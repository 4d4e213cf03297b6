"""A saved plan as its page shows it: the gate, then what changes by its weight.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odfbuild.cli.formats.markdown import by_weight
from odfbuild.cli.render.diagnostics import place_text
from odfbuild.cli.render.outside_use import cut, users_text
from odfbuild.cli.render.plan import (
    data_work,
    gate_text,
    header_text,
    is_judged,
    place_of,
    plan_counts,
)
from odfbuild.cli.render.words import (
    ActionSign,
    accepted_text,
    class_word,
    foreseen_text,
    judged_word,
    kind_word,
    marks_of,
    name_text,
    reason_text,
)
from odfbuild.errors import Diagnostic
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Plan, Planned, Step, steps_by_target
from odfbuild.planner.plan.changes import (
    Affected,
    Assessment,
    ColumnChange,
    Hit,
    Judgement,
    Usage,
)
from odfbuild.texts.redaction import blanked, excerpt

if TYPE_CHECKING:
    from odfbuild.app.inspection.trial import RowsTried

MOST_DETAILED = 300
"""Changes that are shown with all that is said of them; more are lines of a table."""

MOST_LISTED = 2_000
_MOST_READERS = 200
_LONGEST_BLOCKS = 20_000
_MOST_ROWS = 20  # of those that go, and of those that come
_LONGEST_VALUE = 200
_SIGNS = {"added": "+", "removed": "-", "renamed": ">"}
_DATA = (ActionSign.DATA, ActionSign.CHECK)


def plan_view(
    plan: Plan, moved: Sequence[DatasetAlias] = (), tried: "Sequence[RowsTried]" = ()
) -> dict[str, Any]:
    """Return what the template of a plan gets; `moved` are datasets that moved since it was made.

    `tried` has rows that changed queries make, and those in force.  Texts are as the plan has
    them: the template escapes them.
    """
    rows = {each.dataset: _compared(each) for each in tried}
    marks = marks_of(plan)
    steps = steps_by_target(plan)
    order = by_weight(plan, marks)
    changed = [each for each in order if _is_change(plan.datasets[each], marks[each])]
    shown = frozenset(changed)
    rest = [each for each in order if each not in shown]
    return {
        "project": plan.project or plan.target,
        "counts": plan_counts(plan, marks),
        "gate": gate_text(plan) if is_judged(plan) else None,
        "passed": plan.verdict.passed,
        "header": header_text(plan).split("   "),
        "work": data_work(plan),
        "moved": [str(each) for each in moved[:_MOST_READERS]],
        "changes": [
            {
                **_change(plan, alias, marks[alias], steps.get(alias, ())),
                "rows": rows.get(alias),
            }
            for alias in changed[:MOST_DETAILED]
        ],
        "others": [_line(plan, each, marks[each]) for each in changed[MOST_DETAILED:MOST_LISTED]],
        "more": max(len(changed) - MOST_LISTED, 0),
        "data": [
            _data(plan, each, marks[each], steps.get(each, ())) for each in rest[:MOST_LISTED]
        ],
        "more_data": max(len(rest) - MOST_LISTED, 0),
        "notes": [_note(each) for each in plan.notes],
        "refused": [_note(each) for found in plan.refused.values() for each in found],
        "outside": [[each.kind, cut(each.name), users_text(each).strip()] for each in plan.outside],
    }


def _is_change(planned: Planned, mark: ActionSign) -> bool:
    found = planned.assessment
    return mark not in _DATA or (found is not None and bool(found.hits))


def _line(plan: Plan, alias: DatasetAlias, mark: ActionSign) -> dict[str, Any]:
    planned = plan.datasets[alias]
    return {
        "sign": mark.sign,
        "word": class_word(mark, planned.assessment),
        "tone": mark.name.lower(),
        "alias": str(alias),
        "name": name_text(alias, planned),
        "kind": kind_word(planned.kind),
        "place": "" if planned.is_retired else place_of(planned),
    }


def _change(
    plan: Plan, alias: DatasetAlias, mark: ActionSign, steps: Sequence[Step]
) -> dict[str, Any]:
    planned = plan.datasets[alias]
    found = planned.assessment
    appends = [step.work for step in steps if isinstance(step.work, Append)]
    events = [event for work in appends for event in work.events]
    blocks = yaml_text([blanked(to_mapping(event)) for event in events]) if events else ""
    return {
        **_line(plan, alias, mark),
        "hits": [] if found is None else [_hit(hit) for hit in found.hits],
        "columns": list(_columns(planned, found)),
        "unknown": None if found is None or found.schema is None else found.schema.unknown,
        "readers": [] if found is None else [_reader(e) for e in found.affected[:_MOST_READERS]],
        "more_readers": 0 if found is None else max(len(found.affected) - _MOST_READERS, 0),
        "events": [type(event).__name__ for event in events],
        "reasons": [reason_text(reason) for step in steps for reason in step.reasons],
        "expect": None if planned.foreseen is None else foreseen_text(planned.foreseen),
        "blocks": blocks[:_LONGEST_BLOCKS],
        "cut": len(blocks) > _LONGEST_BLOCKS,
    }


def _compared(tried: "RowsTried") -> dict[str, Any]:
    """Return the rows that a changed query makes otherwise, the first of them."""
    parts = (("-", "goes", tried.gone), ("+", "comes", tried.come))
    shown = [
        (sign, word, row, times) for sign, word, rows in parts for row, times in rows[:_MOST_ROWS]
    ]
    columns = list(dict.fromkeys(name for _, _, row, _ in shown for name in row))
    rows = [row for _, _, row, _ in shown]
    common = [name for name in columns if all(name in row for row in rows)]
    shown.sort(key=lambda each: (tuple(each[2][name] for name in common), each[0] == "+"))
    return {
        "unknown": tried.unknown,
        "read": tried.read,
        "gone": sum(abs(times) for _, times in tried.gone),
        "come": sum(abs(times) for _, times in tried.come),
        "columns": columns,
        "lines": [
            {
                "sign": sign,
                "word": word,
                "times": abs(times),
                "row": [excerpt(row.get(name, ""), _LONGEST_VALUE) for name in columns],
            }
            for sign, word, row, times in shown
        ],
        "more": sum(max(0, len(rows) - _MOST_ROWS) for _, _, rows in parts),
    }


def _data(
    plan: Plan, alias: DatasetAlias, mark: ActionSign, steps: Sequence[Step]
) -> dict[str, Any]:
    reasons = dict.fromkeys(reason_text(reason) for step in steps for reason in step.reasons)
    return {**_line(plan, alias, mark), "reasons": list(reasons)}


def _columns(planned: Planned, found: Assessment | None) -> Iterator[dict[str, Any]]:
    for each in () if found is None or found.schema is None else found.schema.columns:
        yield {
            "sign": _SIGNS.get(each.kind, "~"),
            "kind": each.kind,
            "path": each.path,
            "before": each.before,
            "after": each.after,
            "note": _column_note(each, planned),
        }


def _column_note(change: ColumnChange, planned: Planned) -> str:
    new = change.kind == "added" and planned.based_on is not None
    return "older rows: null" if new and not (change.after or "").endswith(" NOT NULL") else ""


def _hit(hit: Hit) -> dict[str, Any]:
    refused = hit.judged in (Judgement.REFUSED, Judgement.EXPIRED)
    return {
        "code": hit.code,
        "name": hit.name,
        "judged": judged_word(hit.judged),
        "tone": "bad" if refused else "warn" if hit.judged is Judgement.WARNED else "good",
        "message": hit.message,
        "why": hit.why,
        "options": () if hit.judged is Judgement.PASSED else hit.ways,
        "accepted": None if hit.accepted is None else accepted_text(hit.accepted),
        "place": None if hit.span is None else place_text(hit.span),
        "excerpt": None if hit.span is None else (hit.span.excerpt or "").strip(),
    }


_HOW: Mapping[tuple[Usage, ...], str] = {
    (Usage.VALUE,): "their values",
    (Usage.SHAPE,): "which rows there are",
    (Usage.VALUE, Usage.SHAPE): "their values, and which rows there are",
}


def _reader(each: Affected) -> dict[str, Any]:
    how = "may be: its query is not understood" if each.unknown else _HOW.get(each.usage, "")
    return {"name": str(each.dataset), "columns": list(each.columns), "how": how}


def _note(found: Diagnostic) -> dict[str, Any]:
    return {
        "level": found.level.value,
        "code": found.code,
        "what": found.what,
        "why": found.why,
        "fix": found.fix,
        "place": None if found.span is None else place_text(found.span),
    }
