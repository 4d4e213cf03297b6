"""Findings as text: the layout, and that no text of a user can spoil it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.diagnostics import render_diagnostic, render_diagnostics
from odfbuild.errors import Diagnostic, Level, SourceSpan


def finding(span: SourceSpan | None = None, **changed: str) -> Diagnostic:
    texts = {"code": "some-code", "what": "what", "why": "why", "fix": "fix", **changed}
    return Diagnostic(**texts, span=span)  # type: ignore[arg-type]


def carets(span: SourceSpan) -> list[str]:
    return render_diagnostic(finding(span)).split("\n")[1:3]


def test_a_finding_shows_place_line_reason_and_way_out() -> None:
    shown = render_diagnostic(
        Diagnostic(
            code="unknown-input",
            what="no dataset named 'ca.bankofcanada.rate'",
            why='an input must be declared here or already pulled (ODF 0.34.1, "SetTransform")',
            fix="did you mean 'ca.bankofcanada.rates'?",
            span=SourceSpan(
                file="rates/daily.yaml",
                line=14,
                column=19,
                length=20,
                excerpt="    - datasetRef: ca.bankofcanada.rate",
            ),
        )
    )
    assert (
        shown
        == """\
rates/daily.yaml:14:19: error[unknown-input]: no dataset named 'ca.bankofcanada.rate'
  14 |     - datasetRef: ca.bankofcanada.rate
     |                   ^^^^^^^^^^^^^^^^^^^^
  why: an input must be declared here or already pulled (ODF 0.34.1, "SetTransform")
  fix: did you mean 'ca.bankofcanada.rates'?"""
    )


def test_a_finding_without_a_place_is_shorter() -> None:
    assert render_diagnostic(finding()) == "error[some-code]: what\n  why: why\n  fix: fix"


def test_a_warning_is_called_one() -> None:
    warned = Diagnostic(code="c", what="w", why="", fix="", level=Level.WARNING)
    assert render_diagnostic(warned) == "warning[c]: w"


def test_what_is_listed_stands_below_what_it_is_a_list_of() -> None:
    shown = render_diagnostic(finding(what="in has 2 problems:\n  in:1: one\n  in:7: two\x1b"))
    assert shown.split("\n")[:3] == [
        "error[some-code]: in has 2 problems:",
        "  in:1: one",
        "  in:7: two\ufffd",
    ]


def test_a_text_of_several_lines_stays_below_its_label() -> None:
    shown = render_diagnostic(finding(why="one\ntwo"))
    assert shown == "error[some-code]: what\n  why: one\n       two\n  fix: fix"


def test_several_findings_are_counted() -> None:
    note = Diagnostic(code="n", what="n", why="", fix="", level=Level.NOTE)
    shown = render_diagnostics([finding(), note, finding()])
    assert shown.split("\n\n")[1:] == [
        "note[n]: n",
        render_diagnostic(finding()),
        "2 errors, 1 note",
    ]


def test_no_findings_give_no_text() -> None:
    assert render_diagnostics([]) == ""


def test_a_line_without_text_is_not_shown() -> None:
    shown = render_diagnostic(finding(SourceSpan(file="a", line=1, excerpt="")))
    assert shown.startswith("a:1:1: error[some-code]: what\n  why:")


@pytest.mark.parametrize(
    ("excerpt", "column", "length", "below"),
    [
        ("abc", 2, 1, " ^"),
        ("\tab\tc", 5, 1, "\t  \t^"),
        ("日本 x", 4, 1, "     ^"),
        ("日本", 2, 1, "  ^^"),
        ("e\u0301x", 3, 1, " ^"),
        ("ab", 3, 1, "  ^"),
        ("ab", 2, 9, " ^"),
    ],
)
def test_carets_stand_below_what_is_meant(
    excerpt: str, column: int, length: int, below: str
) -> None:
    span = SourceSpan(file="a", line=7, column=column, length=length, excerpt=excerpt)
    assert carets(span) == [f"  7 | {excerpt}", f"    | {below}"]


@pytest.mark.parametrize(
    ("before", "meant", "behind"),
    [
        ("url: https://me:hunter2hunter2@h.example/x, ", "nope", ": 1"),
        ("a?token=abcdefabcdefabcdef b?password=hunter2hunter2 ", "nope", ""),
        ("url: ", "nope", ": https://me:hunter2hunter2@h.example/x"),
        ("https://a:hunter2hunter2@h ", "nope", " https://b:hunter2hunter2@h"),
    ],
)
def test_carets_stand_below_what_is_meant_behind_what_is_blanked(
    before: str, meant: str, behind: str
) -> None:
    line, below = carets(
        SourceSpan(
            file="a.yaml",
            line=1,
            column=len(before) + 1,
            length=len(meant),
            excerpt=f"{before}{meant}{behind}",
        )
    )
    assert "hunter2" not in line
    assert (below.index("^"), below.count("^")) == (line.index(meant), len(meant))


def test_what_steers_a_terminal_is_not_printed() -> None:
    span = SourceSpan(file="\x1b[2Ja", line=1, column=2, excerpt="x\x1b]0;me\x07\u202e")
    shown = render_diagnostic(finding(span, what="\x1b[31mred"))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown


def test_a_very_long_line_is_cut_around_the_place() -> None:
    span = SourceSpan(
        file="a", line=1, column=5001, length=4, excerpt="x" * 5000 + "here" + "y" * 5000
    )
    line, below = carets(span)
    assert len(line) < 200
    assert line[below.index("^") : below.rindex("^") + 1] == "here"


@given(
    st.text(st.characters(exclude_characters="\r\n"), max_size=400),
    st.integers(1, 420),
    st.integers(1, 50),
)
def test_any_line_gives_two_lines_and_at_least_one_caret(
    excerpt: str, column: int, length: int
) -> None:
    span = SourceSpan(file="a", line=1, column=column, length=length, excerpt=excerpt or "x")
    shown = render_diagnostic(finding(span)).split("\n")
    assert len(shown) == 5
    assert shown[2].strip(" |\t").startswith("^")
    assert all(unicodedata.category(sign) != "Cc" or sign == "\t" for sign in "".join(shown))
