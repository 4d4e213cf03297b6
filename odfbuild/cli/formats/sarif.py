"""SARIF 2.1.0, as code scanning shows it: a result a finding, at its place in the files.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from odfbuild import __version__
from odfbuild.cli.formats.findings import FindingLine, message_lines, of_diagnostics, of_plan
from odfbuild.errors import Diagnostic, Level, SourceSpan, bounded
from odfbuild.odf.identity import sha3_256
from odfbuild.planner.evolution.rules.catalogue import catalogue
from odfbuild.planner.plan.changes import Judgement
from odfbuild.planner.plan.policy import Severity

if TYPE_CHECKING:
    from odfbuild.planner.evolution.rules.rule import Rule
    from odfbuild.planner.plan import Plan

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "note"}
_DEFAULTS = {Severity.ERROR: "error", Severity.WARN: "warning", Severity.OFF: "none"}
_NOWHERE = SourceSpan(file="odfbuild.yaml", line=1)  # code scanning wants a place of every result
_NAMED = {"dataset": "DATASET", "column": "COLUMN", "other": "OTHER"}


def render(plan: Plan, *, prefix: str = "") -> str:
    """Return the findings of a plan; `prefix` is the project's folder in the repository."""
    return _document(of_plan(plan), prefix)


def render_diagnostics(found: Iterable[Diagnostic], *, prefix: str = "") -> str:
    """Return the problems of a project."""
    return _document(of_diagnostics(found), prefix)


def _document(found: Sequence[FindingLine], prefix: str) -> str:
    rules = {each.code: each for each in found}
    numbers = {code: number for number, code in enumerate(sorted(rules))}
    driver = {
        "name": "odfbuild",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rules[code]) for code in numbers],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, numbers[each.code], prefix) for each in found],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2) + "\n"


def _rule(each: FindingLine) -> dict[str, Any]:
    known = catalogue().get(each.code)
    if known is None:
        return {"id": each.code, "help": {"text": each.why or each.message}}
    return {
        "id": known.code,
        "name": known.name,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.explanation},
        "help": {"text": _help(known), "markdown": _help_page(known)},
        "defaultConfiguration": {"level": _DEFAULTS[known.severity]},
    }


def _help(rule: Rule) -> str:
    ways = "; ".join(_ways(rule))
    return f"{rule.explanation} Before: {rule.before}. After: {rule.after}. Options: {ways}."


def _help_page(rule: Rule) -> str:
    ways = "\n".join(f"- {way}" for way in _ways(rule))
    return (
        f"{rule.explanation}\n\nBefore\n\n```yaml\n{rule.before}\n```\n\n"
        f"After\n\n```yaml\n{rule.after}\n```\n\nWhat to do\n\n{ways}\n"
    )


def _ways(rule: Rule) -> Iterator[str]:
    return (way.format_map(_NAMED) for way in rule.ways)


def _result(each: FindingLine, rule: int, prefix: str) -> dict[str, Any]:
    passed = each.judged is Judgement.PASSED
    result: dict[str, Any] = {
        "ruleId": each.code,
        "ruleIndex": rule,
        "kind": "pass" if passed else "fail",
        "level": "none" if passed else _LEVELS[each.level],
        "message": {"text": "\n".join(message_lines(each))},
        "partialFingerprints": {"odfbuild/v1": _fingerprint(each)},
        "locations": [_location(each.span or _NOWHERE, prefix)],
    }
    if each.judged is Judgement.ACCEPTED:
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": each.accepted or ""}
        ]
    return result


def _fingerprint(each: FindingLine) -> str:
    """Return what stays the same while the file moves around the finding."""
    file = "" if each.span is None else each.span.file
    parts = (each.code, str(each.dataset), each.column or "", file, each.message)
    return sha3_256("\0".join(parts).encode("utf-8", "surrogatepass")).short()


def _location(span: SourceSpan, prefix: str) -> dict[str, Any]:
    line, column = max(1, span.line), max(1, span.column)
    region: dict[str, Any] = {
        "startLine": line,
        "startColumn": column,
        "endLine": line,
        "endColumn": column + max(1, span.length),
    }
    if span.excerpt is not None:
        region["snippet"] = {"text": bounded(span.excerpt)}
    uri = quote(f"{prefix}{span.file}".encode("utf-8", "surrogateescape"), safe="/~")
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
