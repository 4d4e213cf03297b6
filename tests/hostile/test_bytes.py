"""Bytes of strangers: what errors repeat of them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.cli.formats import github, sarif
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import (
    LONGEST_LINE,
    LONGEST_TEXT,
    Diagnostic,
    EngineError,
    OdfBuildError,
    SourceSpan,
    bounded,
)
from odfbuild.odf.events import ReadStep, ReadStepCsv, ReadStepGeoJson, ReadStepJson, ReadStepNdJson
from odfbuild.planner.saved.forms import diagnostic_json
from tests.executors.ingest.read.reading import frame_of

LONG = "x" * 60_000
D = ("id INT", "name STRING")
CSV = ReadStepCsv(header=True, ddl_schema=D)
ND = ReadStepNdJson(ddl_schema=D)
ERRORS: dict[str, tuple[ReadStep, str]] = {
    "a cell of CSV": (CSV, f"id,name\n{LONG},b\n"),
    "cells of CSV": (CSV, f"id,name\n{LONG},b\n{LONG},c\n"),
    "a name of CSV": (CSV, f"{LONG},y,z\n1,2,3\n"),
    "a name twice": (ReadStepCsv(header=True), f"{LONG},{LONG}\n1,2\n"),
    "an open quote": (CSV, f'id,name\n1,"{LONG}\n'),
    "no JSON": (ND, f"{LONG}\n"),
    "a text": (ND, f'{{"id": "{LONG}"}}\n'),
    "a number": (ND, f'{{"id": {"9" * len(LONG)}}}\n'),
    "a member": (ReadStepNdJson(), f'{{"{LONG}": 1}}\n{{"{LONG}": "a"}}\n'),
    "an element": (ReadStepJson(ddl_schema=D), f'[{{"id": "{LONG}"}}]'),
    "a kind of feature": (ReadStepGeoJson(ddl_schema=D), f'{{"type": "{LONG}"}}'),
    "a type": (ReadStepCsv(ddl_schema=(f"{LONG} WRONG",)), "1\n"),
    "an encoding": (ReadStepCsv(ddl_schema=D, encoding=LONG), "1\n"),
    "a separator": (ReadStepCsv(ddl_schema=D, separator=LONG), "1\n"),
}


@pytest.mark.holds("bytes-errors")
@pytest.mark.parametrize(("step", "data"), ERRORS.values(), ids=ERRORS)
def test_errors_of_readers_are_bounded(step: ReadStep, data: str) -> None:
    with pytest.raises(OdfBuildError) as caught:
        frame_of(step, data)
    for text in (str(caught.value), caught.value.what, caught.value.why, caught.value.fix):
        assert len(text) <= LONGEST_TEXT
        assert max(map(len, text.split("\n"))) <= LONGEST_LINE


@pytest.mark.holds("bytes-errors")
@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from(["\n", "a", "a\n", "\u00e9"]), st.integers(0, 6_000)), max_size=9
    )
)
def test_what_is_cut_is_bounded_and_counted(parts: list[tuple[str, int]]) -> None:
    text = "".join(part * times for part, times in parts)
    cut = bounded(text)
    assert len(cut) <= LONGEST_TEXT
    assert all(len(line) <= LONGEST_LINE for line in cut.split("\n"))
    assert bounded(cut) == cut
    short = len(text) <= LONGEST_TEXT and all(len(it) <= LONGEST_LINE for it in text.split("\n"))
    assert (cut == text) == short
    assert EngineError(text, text, text).diagnostics()[0].what == cut


@pytest.mark.holds("bytes-errors")
def test_what_is_cut_says_how_much_and_what_is_wrong_with_it() -> None:
    cut = bounded(f"column {LONG} is none")
    assert cut.startswith("column xxx")
    assert cut.endswith("xxx is none")
    assert " more characters) ..." in cut
    listed = bounded("\n".join("y" * 100 for _ in range(1_000)))
    shown = listed.split("\n")
    assert shown[-1] == f"... ({1_000 - len(shown) + 1:,} more lines)"


@pytest.mark.holds("bytes-errors")
def test_a_long_line_of_a_file_is_shown_in_part() -> None:
    line = f"{LONG}: here {LONG}"
    span = SourceSpan(file="a.yaml", line=3, column=len(LONG) + 3, length=4, excerpt=line)
    found = Diagnostic(code="a", what=LONG, why=LONG, fix=LONG, span=span)
    shown = render_diagnostics([found])
    assert len(shown) < 8_000
    excerpt, carets = shown.split("\n")[1:3]
    assert excerpt[carets.index("^") : carets.rindex("^") + 1] == "here"
    for text in (
        json.dumps(diagnostic_json(found)),
        sarif.render_diagnostics([found]),
        github.render_diagnostics([found]),
    ):
        assert len(text) < 25_000


@pytest.mark.holds("bytes-errors")
def test_the_name_of_an_instance_is_shown_in_part() -> None:
    span = SourceSpan(file="a.yaml", line=1, instance=f"cur={LONG}")
    found = Diagnostic(code="a", what="b", why="c", fix="d", span=span)
    assert len(render_diagnostics([found])) < 3_000
    assert len(json.dumps(diagnostic_json(found))) < 3_000
    assert len(github.render_diagnostics([found])) < 3_000
