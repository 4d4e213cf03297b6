"""The outcome of a run as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from odfbuild import app
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.errors import (
    Diagnostic,
    InvalidQueryError,
    Level,
    OdfBuildError,
    ProjectErrors,
    SourceSpan,
)
from odfbuild.executors.engine.context import (
    EMPTY_INPUT,
    NO_EVENT_TIME,
    NULL_KEY,
    OF_INPUTS,
    OTHER_ENTRIES,
    OTHER_FILES,
    RECORDED_KEY,
    RENAMED_COLUMN,
    ColumnDrift,
    InputNotes,
    Round,
)
from odfbuild.executors.runs.report import Done, Failed, Interrupted, Outcome, RunReport, Skipped
from odfbuild.odf.events import AddPushSource, SetPollingSource
from odfbuild.planner.saved.forms import diagnostic_json

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.plan import Plan, Step

_LISTED = 10
_SHOWN = 5  # columns of each kind
_T = TypeVar("_T")

Input = tuple[str, InputNotes]
"""The name of an input, and its notes."""


def notes_words(notes: Sequence[InputNotes]) -> str:
    """Return how many bad rows there are, to go after other counts; nothing if there are none."""
    bad = sum(each.bad_rows for each in notes)
    return f", {count(bad, 'bad row')} diverted" if bad else ""


def notes_json(notes: InputNotes) -> dict[str, Any]:
    """Return the notes of one input."""
    drift = notes.drifted
    return {
        "bad_rows": notes.bad_rows,
        "bad_rows_file": notes.bad_rows_file,
        "drift": None
        if drift is None
        else {
            "added": list(drift.added),
            "grown": list(drift.grown),
            "missing": list(drift.missing),
            "renamed": [list(pair) for pair in drift.renamed],
        },
        "checks": [diagnostic_json(each) for each in notes.checks],
    }


_OF_PARTS: Final = {
    "fetch": f"{EMPTY_INPUT} {OTHER_FILES} fetch source-not-found source-unreachable container "
    "template event-time glob-limit unsupported-source",
    "prepare": f"{OTHER_ENTRIES} pipe damaged-archive",
    "read": f"invalid-source unsupported-read bad-rows {RENAMED_COLUMN}",
    "query": f"bad-input-schema unhashable-type null-values invalid-changelog {NO_EVENT_TIME}",
    "merge": f"merge-input repeated-key {RECORDED_KEY} {NULL_KEY} fine-key",
}
_PARTS: Final = {code: part for part, codes in _OF_PARTS.items() for code in codes.split()}
"""The part of a definition that a message is about, by its code; `query` gives the columns."""


def diagnostics_of_notes(
    alias: DatasetAlias,
    inputs: Sequence[Input],
    dataset: SourceSpan | None,
    places: Mapping[str, SourceSpan],
) -> Iterator[Diagnostic]:
    """Yield the warnings for one dataset, which is declared here, and parts of its source there."""
    bad = [each for each in inputs if each[1].bad_rows]
    if bad:
        yield _bad_rows(alias, bad, places.get("read", dataset))
    drifted = [(name, notes.drifted) for name, notes in inputs if notes.drifted is not None]
    if drifted:
        yield _drift(alias, drifted, places.get("schema", dataset))
    own = {code: places.get(part, dataset) for code, part in _PARTS.items()}
    placed = [
        replace(
            notes,
            checks=tuple(replace(e, span=e.span or own.get(e.code, dataset)) for e in notes.checks),
        )
        for _, notes in inputs
    ]
    found = [each for notes in placed for each in notes.checks]
    for code in OF_INPUTS:
        yield from _alike(found, code)
    for notes in placed:
        yield from (e for e in notes.checks if e.code not in OF_INPUTS)
        if notes.absent is not None:
            yield replace(
                notes.absent,
                what=f"{alias}: {notes.absent.what}",
                span=places.get("fetch", dataset),
            )


def _alike(found: Sequence[Diagnostic], code: str) -> Iterator[Diagnostic]:
    """Yield one warning and one note of those with a code, for all inputs together."""
    for level in (Level.WARNING, Level.NOTE):
        alike = [each for each in found if each.code == code and each.level is level]
        if alike:
            more = f"; so in {len(alike) - 1:,} more of the inputs" if len(alike) > 1 else ""
            yield replace(alike[0], what=f"{alike[0].what}{more}")


def _bad_rows(alias: DatasetAlias, bad: Sequence[Input], span: SourceSpan | None) -> Diagnostic:
    rows = sum(notes.bad_rows for _, notes in bad)
    listed = [
        f"{name}: {count(notes.bad_rows, 'row')}, in {notes.bad_rows_file}"
        for name, notes in bad[:_LISTED]
    ]
    if len(bad) > _LISTED:
        listed.append(f"and {count(len(bad) - _LISTED, 'more file')} in the same folder")
    return Diagnostic(
        code="rows-put-aside",
        what="\n  ".join([f"{alias}: {count(rows, 'bad row')} diverted", *listed]),
        why="the defaults of odfbuild.yaml say `bad_rows: divert`; the file has each row with its "
        "line and the reason",
        fix="correct the rows and push them, or correct `read` in the definition",
        span=span,
        level=Level.WARNING,
    )


def _drift(
    alias: DatasetAlias, drifted: Sequence[tuple[str, ColumnDrift]], span: SourceSpan | None
) -> Diagnostic:
    """Return one warning of all differences of the inputs of a dataset."""
    drift = ColumnDrift(
        added=_each(line for _, found in drifted for line in found.added),
        grown=_each(line for _, found in drifted for line in found.grown),
        missing=_each(name for _, found in drifted for name in found.missing),
        renamed=_each(pair for _, found in drifted for pair in found.renamed),
    )
    lines = [f"left out: {line.removeprefix('- ')}" for line in drift.added[:_SHOWN]]
    lines += [f"left out members: {line.removeprefix('- ')}" for line in drift.grown[:_SHOWN]]
    lines += [f"null: {column}" for column in drift.missing[:_SHOWN]]
    lines += [f"read as {ours}: {there}" for there, ours in drift.renamed[:_SHOWN]]
    parts = (drift.added, drift.grown, drift.missing, drift.renamed)
    if more := sum(map(len, parts)) - len(lines):
        lines.append(f"and {count(more, 'more column')}")
    name, others = drifted[0][0], len(drifted) - 1
    files = f"{name} and {count(others, 'more file')} have" if others else f"{name} has"
    return Diagnostic(
        code="columns-differ",
        what="\n  ".join([f"{alias}: {files} other columns than the schema", *lines]),
        why="the rows are read by the schema; each difference is reported once",
        fix="\n".join([*_ways(drift), *_meant(alias, drift)]),
        span=span,
        level=Level.WARNING,
    )


def _each(values: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(values))


def _meant(alias: DatasetAlias, drift: ColumnDrift) -> Iterator[str]:
    if not drift.renamed:  # by their names these would not bind at all
        more = ", or `union` to add new columns" if drift.added else ""
        yield f"if that is intended: defaults: {{{alias}: {{columns: by-name}}}}{more}"


def _ways(drift: ColumnDrift) -> Iterator[str]:
    if drift.added:
        yield "to add new columns, add to `read.schema`:"
        yield from _first(drift.added)
    if drift.grown:
        yield "to add the members, write in `read.schema`:"
        yield from _first(drift.grown)
    if drift.missing:
        yield f"if a name changed, correct it in `read.schema`: {', '.join(_first(drift.missing))}"
    if drift.renamed:
        pairs = ", ".join(_first([f"{ours} to {there}" for there, ours in drift.renamed]))
        yield f"if the names in the file are correct, rename in `read.schema`: {pairs}"


def _first(lines: Sequence[str]) -> list[str]:
    shown = list(lines[:_SHOWN])
    return shown if len(shown) == len(lines) else [*shown, f"and {len(lines) - _SHOWN:,} more"]


def report_text(report: RunReport) -> str:
    """Return the last lines of an apply: what was committed, failed and skipped."""
    outcomes = [outcome for _, outcome in report.outcomes]
    datasets = {
        step.target
        for step, outcome in report.outcomes
        if not isinstance(outcome, Skipped)
        and any(each.blocks or not each.notes for each in outcome.rounds)
    }
    rounds = [
        each for outcome in outcomes if not isinstance(outcome, Skipped) for each in outcome.rounds
    ]
    rows = sum(each.records for each in rounds)
    failed = sum(isinstance(outcome, Failed) for outcome in outcomes)
    skipped = [(step, outcome) for step, outcome in report.outcomes if isinstance(outcome, Skipped)]
    lines = [f"  skipped {step.id}, because {outcome.because} failed" for step, outcome in skipped]
    parts = [f"{count(report.committed, 'block')} committed to {count(len(datasets), 'dataset')}"]
    parts.append(count(rows, "row") + notes_words([each.notes for each in rounds]))
    if failed:
        parts.append(f"{failed} failed")
    if skipped:
        parts.append(f"{len(skipped)} skipped")
    if report.interrupted:
        parts.append(f"{count(report.interrupted, 'step')} interrupted")
    if report.left:
        parts.append(f"{count(len(report.left), 'step')} not started")
    done = "Done" if not failed else "Not done"
    if report.interrupted or report.left:
        done = "Interrupted"
    return "\n".join([*lines, f"{done}: {', '.join(parts)}."]) + "\n"


def outcome_text(outcome: Outcome) -> str:
    """Return what became of one step, in a few words."""
    match outcome:
        case Failed():
            return printable(outcome.error.what.split("\n")[0])
        case Skipped():
            return f"because {outcome.because} failed"
        case Interrupted(rounds=()):
            return "interrupted, nothing committed"
        case Interrupted():
            return f"interrupted after {_added_text(outcome.rounds)}"
        case Done(rounds=()):
            return "nothing new"
        case Done():
            return _added_text(outcome.rounds)


def _added_text(rounds: Sequence[Round]) -> str:
    blocks = sum(each.blocks for each in rounds)
    rows = sum(each.records for each in rounds)
    notes = notes_words([each.notes for each in rounds])
    places = dict.fromkeys(each.place for each in rounds if each.place is not None)
    there = f", by {', '.join(places)}" if places else ""
    return f"{count(blocks, 'block')}, {count(rows, 'row')}{there}{notes}"


_FORMAT: Final = "1.0"


def report_json(
    report: RunReport,
    notes: Sequence[Diagnostic],
    run: str | None = None,
    *,
    gate_passed: bool = True,
) -> str:
    """Return what became of each step; `run` is the id under which it is recorded."""
    rounds = [each for _, outcome in report.outcomes for each in _rounds(outcome)]
    answer = {
        "format_version": _FORMAT,
        "run": run,
        "gate_passed": gate_passed,
        "steps": [
            *(_step(step, outcome) for step, outcome in report.outcomes),
            *(_not_begun(step) for step in report.left),
        ],
        "notes": [diagnostic_json(each) for each in notes],
        "summary": {
            "blocks": report.committed,
            "records": sum(each.records for each in rounds),
            "bad_rows": sum(each.notes.bad_rows for each in rounds),
            "failed": len(report.failures),
            "skipped": sum(isinstance(each, Skipped) for _, each in report.outcomes),
            "interrupted": report.interrupted,
            "not_begun": len(report.left),
        },
    }
    return printable_json(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n"


def notes_of(project: app.Opened, plan: Plan, report: RunReport) -> Iterator[Diagnostic]:
    """Yield the notes of the run, then those of inputs by dataset."""
    yield from report.notes
    found: dict[DatasetAlias, list[Input]] = {}
    for step, outcome in report.outcomes:
        notes = [(each.source, each.notes) for each in _rounds(outcome) if each.notes]
        if notes:
            found.setdefault(step.target, []).extend(notes)
    placed = any(map(_has_place, (notes for each in found.values() for _, notes in each)))
    declared = _definitions(project) if placed else {}
    for alias, inputs in found.items():
        places = places_of(declared[alias]) if alias in declared else {}
        yield from diagnostics_of_notes(alias, inputs, plan.datasets[alias].place, places)


def failures_of(project: app.Opened, plan: Plan, report: RunReport) -> Iterator[Diagnostic]:
    """Yield what failed, each with its dataset, and the place of what it is about.

    Where nothing is nearer, that is where the dataset is declared.
    """
    failed = [(s, of.error, e) for s, of in report.failures for e in of.error.diagnostics()]
    of_parts = any(e.span is None and _is_of_part(error, e) for _, error, e in failed)
    declared = _definitions(project) if of_parts else {}
    for step, error, each in failed:
        what, span = each.what, each.span
        if span is None and step.target in declared:
            of = declared[step.target]
            if isinstance(error, InvalidQueryError):
                what, span = _in_query(of, error, what)
            else:
                span = places_of(of).get(_PARTS.get(each.code, ""))
        span = span or plan.datasets[step.target].place
        yield replace(each, what=f"{step.target}: {what}", span=span)


def _is_of_part(error: OdfBuildError, found: Diagnostic) -> bool:
    return isinstance(error, InvalidQueryError) or found.code in _PARTS


def _in_query(
    declared: Declared, error: InvalidQueryError, what: str
) -> tuple[str, SourceSpan | None]:
    """Return what is wrong with a query, and its place in the files rather than in the text."""
    from odfbuild.executors.engine.analysis import PlacedQueryError
    from odfbuild.executors.engine.columns import place_in_query, query_path

    if not (path := query_path(declared)):
        return what, None
    if not isinstance(error, PlacedQueryError):
        return what, place_in_query(declared, path, None)
    return error.message, place_in_query(declared, path, error.at)


def _has_place(notes: InputNotes) -> bool:
    """Tell whether notes are about a part of a source, not about the dataset."""
    found = notes.drifted is not None or notes.absent is not None or notes.bad_rows > 0
    return found or any(each.code in _PARTS for each in notes.checks)


def places_of(declared: Declared) -> Mapping[str, SourceSpan]:
    """Return where the query of a dataset and the parts of its source are written.

    `query` is the read step where there is none, `schema` what declares the columns of that.
    """
    from odfbuild.executors.engine.columns import place_in_query, query_path

    query = query_path(declared)
    found = {} if not query else {"query": place_in_query(declared, query, None)}
    for at, event in enumerate(declared.written.metadata):
        if isinstance(event, SetPollingSource | AddPushSource):
            source = ("metadata", at)
            of: dict[str, tuple[str | int, ...]] = {
                key: (*source, key) for key in ("fetch", "prepare", "read", "merge")
            }
            of |= {key: (*source, "read", key) for key in ("ddlSchema", "schema")}
            spans = {key: declared.key_span(path) for key, path in of.items()}
            parts = {k: v for k, v in spans.items() if v != declared.key_span(of[k][:-1])}
            schema = parts.get("schema") or parts.get("ddlSchema")
            if schema is not None:
                parts["schema"] = schema
            if not query and "read" in parts:
                parts["query"] = parts["read"]
            return {**found, **parts}
    return found


def _definitions(project: app.Opened) -> dict[DatasetAlias, Declared]:
    """Return the definitions as they are now; of a saved plan they may be others, or broken."""
    try:
        return {each.alias: each for each in app.load(project, partly=True).declared}
    except ProjectErrors:
        return {}


def _rounds(outcome: Outcome) -> tuple[Round, ...]:
    return () if isinstance(outcome, Skipped) else outcome.rounds


def _step(step: Step, outcome: Outcome) -> dict[str, Any]:
    errors = outcome.error.diagnostics() if isinstance(outcome, Failed) else ()
    return {
        **_step_names(step),
        "outcome": type(outcome).__name__.lower(),
        "because": outcome.because if isinstance(outcome, Skipped) else None,
        "errors": [diagnostic_json(each) for each in errors],
        "rounds": [_round(each) for each in _rounds(outcome)],
    }


def _not_begun(step: Step) -> dict[str, Any]:
    return {
        **_step_names(step),
        "outcome": "not-begun",
        "because": None,
        "errors": [],
        "rounds": [],
    }


def _step_names(step: Step) -> dict[str, Any]:
    work = type(step.work).__name__.lower()
    return {"id": step.id, "target": str(step.target), "work": work}


def _round(each: Round) -> dict[str, Any]:
    done = {"source": each.source, "blocks": each.blocks, "records": each.records}
    read = each.read
    looked = None if read is None else {"rows": read.rows, "bytes": read.bytes, "of_bytes": read.of}
    placed = {} if each.place is None else {"place": each.place}
    return {**done, **placed, **notes_json(each.notes), "read": looked}
