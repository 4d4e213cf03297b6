"""Texts with words lost, doubled, exchanged or moved: nothing that reads one ends in a fault."""

import re
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from odfbuild.sql.analysis.classes import class_run
from odfbuild.sql.analysis.facts import diagnostics, examine, shaping_clauses
from odfbuild.sql.analysis.spark_refusals import misuses
from odfbuild.sql.analysis.typed_findings import typed_findings
from odfbuild.sql.analysis.windows import waits
from odfbuild.sql.columns import columns_of
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import DATAFUSION, SPARK, QueryStep
from tests.rule.grammar.pairs import columns_of as columns_of_tables
from tests.rule.grammar.pairs import drawn_pair

_WORD = re.compile(r"\s+|[\w.]+|'[^']*'|`[^`]*`|.", re.DOTALL)
_PUT = [
    "(",
    ")",
    ",",
    "*",
    "select",
    "from",
    "over",
    "as",
    "distinct",
    ".",
    "[",
    "]",
    "'",
    "{",
    ":",
]


@given(
    st.integers(0, 1 << 30),
    st.lists(
        st.tuples(
            st.sampled_from("ldmxp"), st.floats(0, 1), st.floats(0, 1), st.sampled_from(_PUT)
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([SPARK, DATAFUSION]),
)
def test_no_damage_ends_in_a_fault(
    seed: int, changes: list[tuple[str, float, float, str]], engine: str
) -> None:
    pair = drawn_pair(seed)
    inputs = dict(columns_of_tables(pair.tables))
    steps = pair.query.steps
    damaged = (
        *(QueryStep(alias, text, engine=engine) for alias, text in steps[:-1]),
        QueryStep(None, _changed(steps[-1][1], changes), engine=engine),
    )
    assert diagnostics(examine(damaged, inputs)) is not None
    if engine == SPARK:
        assert list(misuses(damaged)) is not None
    for read in (
        lambda: waits(damaged),
        lambda: shaping_clauses(damaged),
        lambda: class_run(damaged, inputs),
        lambda: columns_of(damaged, inputs),
        lambda: list(typed_findings(damaged, inputs, {})) if engine == SPARK else None,
    ):
        with suppress(SqlTextError):
            read()


def _changed(text: str, changes: list[tuple[str, float, float, str]]) -> str:
    words = _WORD.findall(text)
    for kind, first, second, put in changes:
        at, to = (min(int(each * len(words)), len(words) - 1) for each in (first, second))
        match kind:
            case "l":
                del words[at]
            case "d":
                words.insert(to, words[at])
            case "m":
                words.insert(to, words.pop(at))
            case "x":
                words[at], words[to] = words[to], words[at]
            case _:
                words.insert(at, put)
        words = words or [" "]
    return "".join(words)
