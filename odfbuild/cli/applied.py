"""What an apply did, as one JSON document, and what it has to tell beyond that."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from odfbuild import app
from odfbuild.cli.printable import printable_json
from odfbuild.cli.told import Input, told_json, told_notes
from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.executors.report import Failed, Outcome, Report, Round, Skipped
from odfbuild.odf.events import AddPushSource, SetPollingSource
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Plan, Step
from odfbuild.planner.plan_json import diagnostic_json

__all__ = ["report_json", "schema_place", "told_of"]

_FORMAT: Final = "1.0"


def report_json(
    plan: Plan | None, report: Report, notes: Sequence[Diagnostic], run: str | None = None
) -> str:
    """Return what became of each step; without a plan there was nothing to do.

    `run` is the id under which it is recorded.
    """
    rounds = [each for _, outcome in report.outcomes for each in _rounds(outcome)]
    answer = {
        "format_version": _FORMAT,
        "run": run,
        "gate_passed": plan is None or plan.verdict.passed,
        "steps": [
            *(_step(step, outcome) for step, outcome in report.outcomes),
            *(_left(step) for step in report.left),
        ],
        "notes": [diagnostic_json(each) for each in notes],
        "summary": {
            "blocks": report.committed,
            "records": sum(each.records for each in rounds),
            "bad_rows": sum(each.told.bad_rows for each in rounds),
            "failed": len(report.failures),
            "skipped": sum(isinstance(each, Skipped) for _, each in report.outcomes),
            "interrupted": report.interrupted,
            "not_begun": len(report.left),
        },
    }
    return printable_json(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n"


def told_of(project: app.Opened, plan: Plan, report: Report) -> Iterator[Diagnostic]:
    """Yield what is to be told of the run, then what inputs had besides their rows, by dataset."""
    yield from report.notes
    found: dict[DatasetAlias, list[Input]] = {}
    for step, outcome in report.outcomes:
        told = [(each.source, each.told) for each in _rounds(outcome) if each.told]
        if told:
            found.setdefault(step.target, []).extend(told)
    drifted = any(told.drifted for each in found.values() for _, told in each)
    declared = _declared(project) if drifted else {}
    for alias, inputs in found.items():
        schema = schema_place(declared[alias]) if alias in declared else None
        yield from told_notes(alias, inputs, plan.datasets[alias].place, schema)


def schema_place(declared: Declared) -> SourceSpan | None:
    """Return where the read schema of a dataset is written; None if it has none."""
    for at, event in enumerate(declared.written.metadata):
        if isinstance(event, SetPollingSource | AddPushSource):
            read = ("metadata", at, "read")
            spans = [declared.key_span((*read, key)) for key in ("schema", "ddlSchema")]
            return next((span for span in spans if span != declared.key_span(read)), None)
    return None


def _declared(project: app.Opened) -> dict[DatasetAlias, Declared]:
    """Return the definitions as they are now; of a saved plan they may be others, or broken."""
    try:
        return {each.alias: each for each in app.load(project).declared}
    except ProjectErrors:
        return {}


def _rounds(outcome: Outcome) -> tuple[Round, ...]:
    return () if isinstance(outcome, Skipped) else outcome.rounds


def _step(step: Step, outcome: Outcome) -> dict[str, Any]:
    errors = outcome.error.diagnostics() if isinstance(outcome, Failed) else ()
    return {
        **_named(step),
        "outcome": type(outcome).__name__.lower(),
        "because": outcome.because if isinstance(outcome, Skipped) else None,
        "errors": [diagnostic_json(each) for each in errors],
        "rounds": [_round(each) for each in _rounds(outcome)],
    }


def _left(step: Step) -> dict[str, Any]:
    return {**_named(step), "outcome": "not-begun", "because": None, "errors": [], "rounds": []}


def _named(step: Step) -> dict[str, Any]:
    work = type(step.work).__name__.lower()
    return {"id": step.id, "target": str(step.target), "work": work}


def _round(each: Round) -> dict[str, Any]:
    done = {"source": each.source, "blocks": each.blocks, "records": each.records}
    read = each.read
    looked = None if read is None else {"rows": read.rows, "bytes": read.bytes, "of_bytes": read.of}
    return {**done, **told_json(each.told), "read": looked}
