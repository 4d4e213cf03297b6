"""Names with catalog and schema: the same as without, and nothing else is one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.serve.query.qualified_names import placeholder, unqualified
from odfbuild.sql.text.statement import Statement
from odfbuild.sql.text.steps import DATAFUSION, QueryStep


def read(text: str) -> Statement:
    return QueryStep(None, text, engine=DATAFUSION).statement


QUALIFIERS = ["", "odf.", '"odf".', '"odf"."odf".', "odf.odf.", 'odf . "odf"\n. ']
NAMES = ['"team.cities"', "orders", '"odf"']


@given(st.lists(st.tuples(st.sampled_from(QUALIFIERS), st.sampled_from(NAMES)), min_size=1))
def test_a_qualified_name_is_read_as_the_name(tables: list[tuple[str, str]]) -> None:
    def text(qualified: bool) -> str:
        read = [
            (q if qualified else " " * len(q)) + f"{name} t{at}"
            for at, (q, name) in enumerate(tables)
        ]
        return f"select 'odf.odf.x' as s from {' cross join '.join(read)}"

    assert unqualified(read(text(True))) == text(False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('select odf.odf."a.b".x from odf."a.b"', 'select         "a.b".x from     "a.b"'),
        ("select odf.x, odf.odf from a odf", "select odf.x, odf.odf from a odf"),
        ("select 1 from other.a, x.odf.a", "select 1 from other.a, x.odf.a"),
        ("select odf.odf.x from odf.odf.a odf", "select odf.odf.x from         a odf"),
        ("select odf.odf.a.x from odf.odf.a", "select         a.x from         a"),
        ("select s.odf.odf.x from a s", "select s.odf.odf.x from a s"),
        ("select 1 from ODF.a", "select 1 from ODF.a"),
    ],
)
def test_what_is_no_qualifier_stays(text: str, found: str) -> None:
    assert unqualified(read(text)) == found


@pytest.mark.parametrize(
    "text", ["select ? from a", "select $1 from a", "select x from a where x = ?"]
)
def test_a_place_for_a_value_is_found(text: str) -> None:
    assert placeholder(read(text)) is not None


@pytest.mark.parametrize("text", ["select '?', '$1' from a", 'select "$1", x[1:2] from a'])
def test_a_text_that_looks_like_one_is_none(text: str) -> None:
    assert placeholder(read(text)) is None
