"""Queries for DataFusion in forms that composed ones seldom have.

Stars that replace columns, UNION BY NAME, VALUES and LATERAL queries.
"""

from collections.abc import Sequence

from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import DATAFUSION
from tests.rule.grammar.queries import Composed
from tests.rule.grammar.relations import BIGINT, BOOLEAN, DECIMAL, DOUBLE, STRING
from tests.rule.grammar.tables import Table

__all__ = ["in_a_rare_form"]

_PLAIN = {STRING, BIGINT, BOOLEAN, DOUBLE, DECIMAL}
_VALUES = "(values ('p', 1), ('q', 2), ('Q', null))"


def in_a_rare_form(draw: Choices, tables: Sequence[Table]) -> Composed:
    """Return a query over the first two inputs, in one of the forms, which may be nested."""
    one, other = tables[0], tables[1]
    form = draw.one((_replaced, _replaced_of_join, _united, _united, _inline, _lateral))
    text = form(draw, one, other)
    if draw.chance(30):
        text = f"with p as ({text}) select * from p where event_time is not null"
    elif draw.chance(20):
        text = (
            f"select * replace (upper(cast(event_time as varchar)) as event_time) from ({text}) p"
        )
    return Composed(((None, text),), DATAFUSION)


def _names(table: Table) -> list[str]:
    return [each.name for each in table.columns if each.kind in _PLAIN]


def _column(draw: Choices, table: Table, qualifier: str = "") -> str:
    return f'{qualifier}"{draw.one(_names(table))}"'


def _text(draw: Choices, table: Table, qualifier: str = "") -> str:
    one, other = (_column(draw, table, qualifier) for _ in range(2))
    return draw.one(
        (
            f"cast({one} as varchar)",
            f"concat(cast({one} as varchar), cast({other} as varchar))",
            f"case when {one} is null then cast({other} as varchar) else 'x' end",
            f"coalesce(cast({one} as varchar), cast({other} as varchar))",
            "'x'",
        )
    )


def _replaced(draw: Choices, one: Table, _: Table) -> str:
    name, out = draw.one(_names(one)), draw.one(_names(one))
    left_out = f' exclude ("{out}")' if out != name and draw.chance(50) else ""
    more = f", {_text(draw, one)} as more" if draw.chance(40) else ""
    return f'select *{left_out} replace ({_text(draw, one)} as "{name}"){more} from "{one.name}"'


def _replaced_of_join(draw: Choices, one: Table, other: Table) -> str:
    name = draw.one(_names(one))
    value = _text(draw, *draw.one(((one, "x."), (other, "y."))))
    kind = draw.one(("join", "left join"))
    return (
        f'select x.* replace ({value} as "{name}"), {_text(draw, other, "y.")} as more '
        f"from {one.name} x {kind} {other.name} y on x.k = y.k"
    )


def _united(draw: Choices, one: Table, other: Table) -> str:
    union = draw.one(("union all by name", "union by name"))
    return f" {union} ".join(_side(draw, each) for each in (one, other, one)[: 2 + draw.chance(30)])


def _side(draw: Choices, table: Table) -> str:
    names = [each for each in _names(table) if draw.chance(60)]
    items = [f'"{name}"' for name in names]
    free = [each for each in ("s", "r", "q") if draw.chance(40)]
    items += [f"{_text(draw, table)} as {name}" for name in free]
    if draw.chance(50):
        items = [*reversed(items)]
    return f"select {', '.join(['event_time', *items])} from {table.name}"


def _inline(draw: Choices, one: Table, _: Table) -> str:
    kind = draw.one(("join", "left join"))
    listed = draw.chance(50)
    key, number = ("g", "h") if listed else ("column1", "column2")
    names = " as v(g, h)" if listed else " v"
    if draw.chance(30):
        values = draw.one(("select column1 from (values ('p'), ('q')) w", "values ('p'), ('q')"))
        return f"select event_time, {_text(draw, one)} as s from {one.name} where k in ({values})"
    return (
        f"select x.event_time, v.{number} as h, {_text(draw, one, 'x.')} as s "
        f"from {one.name} x {kind} {_VALUES}{names} on v.{key} = x.k"
    )


def _lateral(draw: Choices, one: Table, other: Table) -> str:
    inner = draw.one(
        (
            f"select max({_column(draw, other, 'y.')}) as m from {other.name} y where y.k = x.k",
            f"select {_text(draw, other, 'y.')} as m from {other.name} y where y.k = x.k",
            f"select {_text(draw, one, 'x.')} as m",
            f"select count(*) as m from {other.name} y where y.k = x.k",
        )
    )
    join = draw.one((", lateral ", " cross join lateral ", " left join lateral "))
    on = " on true" if "left" in join else ""
    return (
        f"select x.event_time, l.m, {_text(draw, one, 'x.')} as s "
        f"from {one.name} x{join}({inner}) l{on}"
    )
