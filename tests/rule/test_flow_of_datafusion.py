"""Columns that composed queries in DataFusion's dialect are made of, by changing values of inputs.

A result column that comes out otherwise once an input column has other values is made of it, or the
input column decides on rows.  DataFusion itself says what comes out, and how columns are named.

Many more: `make test-long`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from odfbuild.sql.columns import QueryColumns, columns_of
from odfbuild.sql.columns.output import ColumnRef
from odfbuild.sql.text.steps import steps_of
from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import DATAFUSION
from tests.rule.grammar.oracles import Asked, Unanswered
from tests.rule.grammar.pairs import Pair, drawn_pair
from tests.rule.grammar.pairs import columns_of as inputs_of
from tests.rule.grammar.plain_datafusion import PlainDataFusion
from tests.rule.grammar.plain_spark import plain
from tests.rule.grammar.rare_forms import in_a_rare_form
from tests.rule.inputs import Row
from tests.support.effort import examples

_DRAWN = examples(30, 2_000)
_RARE = examples(8, 2_000)


def test_composed_queries_are_made_of_the_columns_that_change_them() -> None:
    outcomes = Counter(_outcome(drawn_pair(seed, dialect=DATAFUSION)) for seed in range(_DRAWN))
    assert outcomes["known"] > 0.6 * _DRAWN, outcomes


def test_rare_forms_are_made_of_the_columns_that_change_them() -> None:
    outcomes = Counter(_outcome(_rare_pair(seed)) for seed in range(1600, 1600 + _RARE))
    assert outcomes["known"] > 0.6 * _RARE, outcomes


def _rare_pair(seed: int) -> Pair:
    pair = drawn_pair(seed, dialect=DATAFUSION)
    return replace(pair, query=in_a_rare_form(Choices(f"rare {seed}"), pair.tables))


def _outcome(pair: Pair) -> str:
    made = columns_of(steps_of(pair.query.transform), inputs_of(pair.tables))
    if made.outputs is None:
        return f"unknown: {made.unknown}"
    if pair.query.goes_by_order:
        return "goes by order"
    states = list(_states(pair))
    answers = _answers(pair, [state for _, state in states])
    if answers is None:
        return "invalid"
    _check(pair, made, [ref for ref, _ in states], answers)
    return "known"


def _states(pair: Pair) -> Iterator[tuple[ColumnRef | None, Asked]]:
    """Yield the rows as they are drawn, then the same with other values in one column each."""
    rows = {
        each.name: [
            {name: row[name] for name in (column.name for column in each.columns)}
            for portion in pair.history.portions
            for row in portion.records[each.name]
        ]
        for each in pair.tables
    }
    yield None, Asked(pair.tables, rows, None)
    for each in pair.tables:
        for column in each.columns:
            values = [row[column.name] for row in rows[each.name]]
            for other in (values[1:] + values[:1], [None] * len(values)):
                changed = [
                    {**row, column.name: value}
                    for row, value in zip(rows[each.name], other, strict=True)
                ]
                asked = Asked(pair.tables, {**rows, each.name: changed}, None)
                yield ColumnRef(each.name, column.name), asked


def _answers(pair: Pair, states: Sequence[Asked]) -> "list[list[Row] | None] | None":
    """Return the rows of each state; None of one that has none, and of a query that is wrong."""
    found: list[list[Row] | None] = []
    oracle = PlainDataFusion()
    for state in states:
        oracle.ask(pair.query, [state])
        answer = oracle.answer()
        if isinstance(answer, Unanswered):
            if not found:
                return None
            found.append(None)
        else:
            found += answer
    return found


def _check(
    pair: Pair,
    made: QueryColumns,
    refs: Sequence[ColumnRef | None],
    answers: "Sequence[list[Row] | None]",
) -> None:
    first = answers[0]
    assert first is not None
    assert made.outputs is not None
    names = list(first[0]) if first else []
    if not names:
        return
    said = [each.name for each in made.outputs]
    assert len(said) == len(names), f"{said} {names}\n{pair.query}"
    for name, shown in zip(sorted(said), sorted(names), strict=True) if "" not in said else ():
        assert name == shown, f"{said} {names}\n{pair.query}"
    sources = {each.name: each.sources for each in made.outputs}
    for ref, rows in zip(refs, answers, strict=True):
        if ref is None or rows is None or ref in made.shaping:
            continue
        for name in names:
            if ref not in sources.get(name, frozenset()) and name in sources:
                before, after = _values(first, name), _values(rows, name)
                assert before == after, f"{ref} changes {name}\n{pair.query}\n{made}"


def _values(rows: Sequence[Row], name: str) -> Counter[str]:
    return Counter(json.dumps(plain(row[name]), sort_keys=True) for row in rows)
