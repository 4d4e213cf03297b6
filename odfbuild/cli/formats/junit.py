"""JUnit XML, as CI systems show it: one test case a rule that applies, or a dataset that met none.

Pure.  What the gate refuses is a failure, what is accepted a skipped case, a warning a case that
passes and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from odfbuild.cli.formats.findings import FindingLine, message_lines, of_diagnostics, of_plan
from odfbuild.cli.render.diagnostics import excerpt_lines, place_text
from odfbuild.cli.render.words import accepted_text, marks_of
from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.planner.plan.changes import Judgement
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.plan import Plan

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PROJECT = "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class JUnitCase:
    """One test case: whose, its name, where it is written, and what is said of it.

    `outcome` is passed, failed, skipped, or warned, which passes.
    """

    owner: str
    name: str
    outcome: str
    type: str = "test"
    said: str = ""
    span: SourceSpan | None = None


def render(plan: Plan) -> str:
    """Return the rules and notes of a plan, and a passing case for each other changed dataset."""
    found = of_plan(plan)
    met = {each.dataset for each in found}
    clean = [str(alias) for alias in marks_of(plan) if alias not in met]
    return render_findings(f"odfbuild plan {plan.project}".strip(), found, clean)


def render_diagnostics(found: Iterable[Diagnostic], *, suite: str = "odfbuild check") -> str:
    """Return the problems of a project; without any, one case that passes."""
    findings = of_diagnostics(found)
    return render_findings(suite, findings, [] if findings else [_PROJECT])


def render_findings(
    suite: str, found: Iterable[FindingLine], clean: Iterable[str], *, passing: str = "gate"
) -> str:
    """Return findings, and a case that passes for each of what is clean, by this name."""
    return _suite(suite, [*map(_case, found), *(_clean_case(each, passing) for each in clean)])


def render_cases(suite: str, cases: Iterable[JUnitCase]) -> str:
    """Return cases that are known one by one."""
    return _suite(suite, [_full_case(each) for each in cases])


def _full_case(each: JUnitCase) -> Element:
    case = _clean_case(each.owner, _text(each.name))
    _put_place(case, each.span)
    said, first = _text(each.said), _text(each.said.split("\n")[0])
    if each.outcome == "failed":
        failure = SubElement(case, "failure", {"message": first, "type": _text(each.type)})
        failure.text = said
    elif each.outcome == "skipped":
        SubElement(case, "skipped", {"message": first})
    elif said:
        SubElement(case, "system-out").text = said
    return case


def _suite(suite: str, cases: list[Element]) -> str:
    counts = {
        "tests": str(len(cases)),
        "failures": str(_having(cases, "failure")),
        "errors": "0",
        "skipped": str(_having(cases, "skipped")),
    }
    root = Element("testsuites", counts)
    SubElement(root, "testsuite", {"name": _text(suite), **counts}).extend(cases)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _having(cases: Iterable[Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _case(each: FindingLine) -> Element:
    case = Element("testcase", {"classname": _owner(each), "name": _name(each)})
    _put_place(case, each.span)
    said = _text("\n".join(_lines(each)))
    if each.level is Level.ERROR:
        said_of = {"message": _text(each.message), "type": _text(each.code)}
        failure = SubElement(case, "failure", said_of)
        failure.text = said
    elif each.judged is Judgement.ACCEPTED:
        by = "accepted" if each.accepted is None else accepted_text(each.accepted)
        SubElement(case, "skipped", {"message": _text(by)})
    else:
        SubElement(case, "system-out").text = said
    return case


def _put_place(case: Element, span: SourceSpan | None) -> None:
    if span is not None:
        case.set("file", _text(span.file))
        case.set("line", str(span.line))


def _clean_case(owner: str, name: str) -> Element:
    return Element("testcase", {"classname": _text(owner), "name": name})


def _owner(each: FindingLine) -> str:
    return _text(_PROJECT if each.dataset is None else str(each.dataset))


def _name(each: FindingLine) -> str:
    parts = (each.code, each.name, each.column)
    name = " ".join(part for part in parts if part is not None)
    whole = name if each.dataset is not None else f"{name}: {each.message}"
    return _text(" ".join(whole.split("\n")))


def _lines(each: FindingLine) -> Iterator[str]:
    place = "" if each.span is None else f"{place_text(each.span)}: "
    first, *more = message_lines(each)
    yield f"{place}{each.level.value}[{each.code}]: {first}"
    if each.span is not None and each.span.excerpt:
        yield from excerpt_lines(each.span, each.span.excerpt)
    yield from more


def _text(text: str) -> str:
    """Return the text with what XML cannot hold replaced."""
    return _FORBIDDEN.sub("\ufffd", text)
