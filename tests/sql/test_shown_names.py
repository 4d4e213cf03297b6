"""Names in messages about queries: none of them is shown as nothing."""

import itertools
import re

import pytest

from odfbuild.sql.analysis.facts import diagnostics, examine
from odfbuild.sql.text.steps import QueryStep

SOURCES = """
src|range(10)|explode(array(1, 2))|generate_series(1, 2) as g(x)|unnest(a)|"f"(1)|`f`(1)|""(1)
``(1)|x.y(1)|src.range(2)|(values (1))|values (1)|lateral range(3)|table(range(3))|''|""|``|"".""
``.``|src as ""|src as ``|csv.`x`|'a.csv'|src, range(10)|src join range(10) on true
(select * from range(1))
src where a in (select id from range(3))|src cross join lateral ""(1)|identifier('src')|flatten(a)
"""
ITEMS = """
1 as a|""|``|a as ""|a as ``|"".a|``.a|src.""|''()|""(1)|``(1)|*|"".*|count(``)|sum("")
max(a) over ""|``(a)
(select a from range(2))|(select max(id) from ""(1))|cast(a as "")|x.""(1)|"".""(a)
"""
ENDS = (
    '| group by ""| group by ``| order by ""| window "" as (order by a)| having ``| where ``.x = 1'
)
NOTHING = re.compile(r"  |^ | $|(?<![\w\"`'*+])\(\)|(?<!`)``(?! in back)|name is| ,|''\(\)")


def _listed(text: str) -> list[str]:
    return [each for line in text.strip().splitlines() for each in line.split("|")]


@pytest.mark.parametrize("engine", ["spark", "datafusion"])
def test_no_message_shows_an_empty_name(engine: str) -> None:
    seen = set()
    for item, source, end in itertools.product(_listed(ITEMS), _listed(SOURCES), ENDS.split("|")):
        text = f"select {item} from {source}{end}"
        for found in diagnostics(examine([QueryStep(None, text, engine=engine)], ("src", "sale"))):
            seen.add(found.code)
            for said in (found.what, found.why, found.fix):
                assert NOTHING.search(said) is None, (text, said)
                assert said, text
    assert {"syntax-error", "unknown-input"} <= seen


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("src, range(10)", "range()"),
        ("src cross join explode(array(1, 2)) e", "explode()"),
        ("generate_series(1, 2) as g(x)", "generate_series()"),
        ("x.Range(1)", "range()"),
        ('"other"(1)', "other()"),
        ('""(1)', '""()'),
        ("(select * from src join range(3) on true)", "range()"),
        ("src where k in (select value from range(3))", "range()"),
    ],
)
def test_a_function_in_the_place_of_a_table_is_named(source: str, name: str) -> None:
    text = f"select t, k from {source}"
    (found,) = diagnostics(examine([QueryStep(None, text, engine="datafusion")], ("src",)))
    assert found.code == "syntax-error"
    assert f"{name} in FROM is not read here" in found.what
    at = re.search(rf'"?{name.removesuffix("()")}"?\(', text.lower())
    assert at is not None
    assert f"(line 1, column {at.start() + 1})" in found.what
