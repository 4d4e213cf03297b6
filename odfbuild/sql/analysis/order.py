"""Dependence of a query on the order of rows, and its rewriting to depend on values alone.

Rows have no order beyond their values: results must not depend on the portions in which rows
arrived, nor on the number of threads.  Where values can decide, the text is rewritten, otherwise it
is refused:

    row_number() over (order by v)   row_number() over (order by v, struct(*))
    collect_list(v)                  sort_array(collect_list(v))
    any_value(v)                     min(v)
    max_by(v, t)                     max_by(v, IF((t) IS NULL, NULL, struct((t), (v))))
    select a, b ... order by a limit 3       select a, b ... order by a, 1, 2 limit 3
    select * ... qualify row_number() over (order by v) = 1
        select * except (__odf_row1) from (select *, struct(*) as __odf_row1 ...
        qualify row_number() over (order by v, __odf_row1) = 1)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from odfbuild.sql.analysis.select_lists import (
    count,
    descends,
    group_keys,
    is_made_of,
    without_direction,
)
from odfbuild.sql.analysis.sums import Summand, Sums, cast_to
from odfbuild.sql.analysis.variance import MOMENTS, PAIRED_MOMENTS, moment, paired_moment
from odfbuild.sql.forbidden import MANY_ROWS
from odfbuild.sql.text.edits import SHARED, CarriedText, Edits, Parts
from odfbuild.sql.text.shape import Name, TextPlace
from odfbuild.sql.text.spans import QuerySpans, Span, Spoken, WindowSpan
from odfbuild.sql.text.statement import Statement
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Unordered:
    """A form that depends on the order of rows, and the remedy."""

    what: Name
    fix: str


def unordered(query: Statement, sums: Sums | None = None) -> tuple[Unordered, ...]:
    """Return the forms in a query that must be refused, in the order of its text.

    Without `sums` nothing is refused for its type.
    """
    return tuple(_Ordering(query, sums).problems)


def order_free_text(query: Statement, sums: Sums) -> CarriedText:
    """Return the text rewritten so that values decide each order."""
    return CarriedText(query.text, _Ordering(query, sums).edits.made())


class _Ordering:
    """One pass over the words of a text."""

    def __init__(self, query: Statement, sums: Sums | None) -> None:
        self.text, self.sums = query.text, sums
        self.spans = QuerySpans(query.text, query.tokens)
        self.edits = Edits(query.text)
        self.problems: list[Unordered] = []
        self.named: dict[range, str] = {}  # names of the rows of a SELECT with QUALIFY
        for call in self.spans.calls():
            if call.name in _KNOWN:
                self._call(call)
        for select, name in self.named.items():
            self._name_rows(select, name)
        self._clauses()
        self.problems.sort(key=lambda each: each.what.place.start)

    # Rules

    def _call(self, call: Spoken) -> None:
        over = call.behind.over
        known = self._window_of(call, over)
        if call.name in _REFUSED:
            self._refuse(call, f"{call.name}()", _REFUSED[call.name])
        elif over is not None and call.name in _POSITIONS:
            self._position(call, over, known)
        elif call.name in _FIRSTS:
            self._of_key(call)
        elif call.name in MANY_ROWS:
            if over is not None and known is None:
                self._refuse(call, f"{call.name}()", "write the window out, behind OVER")
                return
            if known is not None and known.frame.startswith("ROWS") and not _is_all(known.frame):
                self._extend(call, over, known)
            self._aggregate(call, known)

    def _window_of(self, call: Spoken, over: WindowSpan | None) -> WindowSpan | None:
        """Return a window as it is written, also for a named one."""
        if over is None or over.name is None:
            return over
        return self.spans.window(self.spans.named(over), self.spans.select(call.at))

    def _position(self, call: Spoken, over: WindowSpan, known: WindowSpan | None) -> None:
        """Order the rows of a window completely, where that changes no frame."""
        frame = "" if known is None else known.frame
        if call.name in _FRAMED and not frame.startswith("ROWS") and not _is_all(frame):
            first = call.name in {"first", "first_value", "any_value"}
            plain = not call.behind.ignores_nulls and len(call.arguments) == 1
            if not first or not _from_start(frame) or not plain:
                self._of_peers(call, known, first=first)
                return
        self._extend(call, over, known)

    def _of_peers(self, call: Spoken, known: WindowSpan | None, *, first: bool) -> None:
        """Take the first or last row of a frame that ends with all rows of equal rank.

        Of these the greatest one counts, or the least where the order descends.
        """
        select = self.spans.select(call.at)
        if known is None or known.based or not known.order:
            self._extend(call, call.behind.over, known)  # reports what is missing
            return
        order = known.order
        ways = {descends(self.spans, key) for key in order}
        said = self.text[call.close : call.end].upper().partition("OVER")[0]
        odd = call.name == "nth_value" or len(call.arguments) != 1 or "NULLS" in said
        if odd or len(ways) != 1 or None in ways or not self._is_reached(call, select):
            fix = "say which rows: ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
            self._refuse(call, f"{call.name}() with rows of equal rank", fix)
            return
        keys = self._keys(call, select)
        if keys is None:
            return
        self._rename(call, "max_by" if first == (True in ways) else "min_by")
        parts: list[str | Span] = [", struct("]
        for key in order:
            parts += ["(", without_direction(self.spans, key), "), "]
        for number, each in enumerate(keys):
            parts += [", " * (number > 0), each]
        at = call.arguments[0][1]
        self.edits.add((at, at), (*parts, ")"), call.at, closes=True)

    def _of_key(self, call: Spoken) -> None:
        """Replace a call by its argument if the group's keys determine it, any_value by min."""
        select = self.spans.select(call.at)
        keys = self.spans.group(select) or ()
        plain = call.end == call.close + 1 and len(call.arguments) == 1
        if plain and is_made_of(self.spans, call.arguments[0], keys):
            at, parts = (call.start, call.end), ("(", call.arguments[0], ")")
            self.edits.add(at, parts, call.at, inner=call.at + 1)
            self._keep_name(call)
            return
        if call.name == "any_value" and not self.spans.in_pivot(call.at):
            self._least(call)
            return
        fix = (
            "group by it too, or say which row by its values: min(x), max(x), or "
            "max_by(x, event_time); any_value(x) if it is the same in all rows of a group"
        )
        self._refuse(call, f"{call.name}()", fix)

    def _least(self, call: Spoken) -> None:
        """Use the least value where any value is permitted."""
        nulls = _NULLS.search(self.text, call.close + 1, call.end)
        more = call.arguments[1:]
        if not more and nulls is None:
            self._keep_name(call)
        elif (call.start, call.end) in self.spans.items(self.spans.select(call.at)):
            self._refuse(call, "any_value() with words for nulls", "give it a name: ... as x")
            return
        self._rename(call, "min")
        if more:
            self.edits.add((call.arguments[0][1], call.close), ("",), call.at)
        if nulls is not None:
            self.edits.add(nulls.span(), ("",), call.at)

    def _keep_name(self, call: Spoken) -> None:
        """Give an item of a SELECT list the name that it would have had."""
        span = (call.start, call.end)
        if span in self.spans.items(self.spans.select(call.at)):
            listed = ", ".join(self._of(each).rpartition(".")[2] for each in call.arguments)
            name = f"{call.name}({'DISTINCT ' * call.distinct}{listed})".replace("`", "")
            at = (call.end, call.end)
            self.edits.add(at, (f" AS `{name}`",), call.at)

    def _extend(self, call: Spoken, over: WindowSpan | None, known: WindowSpan | None) -> None:
        """Append all values to the ORDER BY of a window."""
        what = f"{call.name}() over rows"
        if over is None or known is None or known.based:
            self._refuse(call, what, "write the window out, behind OVER")
            return
        select = self.spans.select(call.at)
        if known.end is None:
            self._refuse(call, what, "give its window an ORDER BY")
            return
        if not self._is_reached(call, select):
            fix = "compute it in a subquery: select * from (select *, ... as n from t) where n = 1"
            self._refuse(call, f"{call.name}() behind the SELECT list", fix)
            return
        keys = self._keys(call, select)
        if keys is None:
            return
        more: Parts = tuple(part for key in keys for part in (", ", key))
        if over.name is None:
            at = (known.end, known.end)
            self.edits.add(at, more, SHARED, closes=True)
            return
        start, end = known.inside
        parts: Parts = ("(", (start, known.end), *more, (known.end, end), ")")
        self.edits.add(over.name, parts, SHARED)

    def _is_reached(self, call: Spoken, select: range) -> bool:
        """Return whether `struct(*)` is valid at a call, or can be named there."""
        begin, at, order = (
            self.spans.of_select(select, each) for each in ("SELECT", "QUALIFY", "ORDER_BY")
        )
        if order is not None and order < call.at:
            return False
        if at is None or at > call.at:
            return True
        can = begin is not None and self.spans.kinds[begin + 1] != "DISTINCT"
        if not can or self.spans.group(select) is not None or not self.spans.items(select):
            return False
        self.named.setdefault(select, f"__odf_row{len(self.named) + 1}")
        return True

    def _name_rows(self, select: range, name: str) -> None:
        """Add `struct(*)` to the list of a SELECT with QUALIFY, and exclude it from the result."""
        begin = self.spans.of_select(select, "SELECT") or select.start
        end = select.stop
        if self.spans.is_united(select):  # clauses at the end are those of the whole union
            after = (self.spans.of_select(select, each) for each in _AFTER)
            end = min((n for n in after if n is not None), default=end)
        start, stop = self.spans.span(begin, end)
        last = self.spans.items(select)[-1][1]
        self.edits.add((start, start), (f"SELECT * EXCEPT ({name}) FROM (",), begin)  # noqa: S608
        self.edits.add((last, last), (f", struct(*) AS {name}",), len(self.spans.tokens))
        self.edits.add((stop, stop), (")",), begin, closes=True)

    def _keys(self, call: Spoken, select: range) -> Sequence[str | Span] | None:
        """Return the expressions that distinguish the rows of a SELECT."""
        if self.spans.group(select) is None:
            at = self.spans.of_select(select, "QUALIFY")
            return (self.named[select] if at is not None and at < call.at else "struct(*)",)
        keys = group_keys(self.spans, select)
        if keys is None:
            fix = "group in a subquery, and number the rows of that"
            self._refuse(call, f"{call.name}() over groups", fix)
        return keys

    def _aggregate(self, call: Spoken, over: WindowSpan | None) -> None:
        if call.name in _LISTS | _TEXTS and over is not None and (over.end or over.based):
            fix = "collect struct(t, x) over an unordered window, which are sorted by value"
            self._refuse(call, f"{call.name}() in an ordered window", fix)
        elif call.name in _LISTS:
            self._wrap(call, "sort_array(", ")")
        elif call.name in _TEXTS:
            self._text(call)
        elif call.name in {"max_by", "min_by"}:
            self._by(call)
        elif call.name == "mode":
            self._mode(call)
        elif call.name in {"sum", "avg", "mean"}:
            self._sum(call, over)
        elif call.name in MOMENTS or call.name in PAIRED_MOMENTS:
            self._moment(call, over)

    def _text(self, call: Spoken) -> None:
        """Append the text itself to the order, unless DISTINCT requires it already."""
        within = call.behind.within
        if within is None and call.arguments:
            at = (call.close + 1, call.close + 1)
            parts: Parts = (" WITHIN GROUP (ORDER BY ", call.arguments[0], ")")
            self.edits.add(at, parts, call.at)
        elif within is not None and not call.distinct:
            at = (within[1], within[1])
            self.edits.add(at, (", ", call.arguments[0]), call.at)

    def _by(self, call: Spoken) -> None:
        if len(call.arguments) < 2:
            return
        value, by = call.arguments[:2]
        parts: Parts = (") IS NULL, NULL, struct((", by, "), (", value, ")))")
        self.edits.around(by, "IF((", parts, call.at)

    def _mode(self, call: Spoken) -> None:
        if len(call.arguments) == 1 and call.behind.within is None:
            at = (call.close, call.close)
            self.edits.add(at, (", true",), call.at)
        elif len(call.arguments) == 2 and self._of(call.arguments[1]).lower() != "true":
            self._refuse(call, "mode(), of two that are as frequent,", "write mode(x, true)")

    def _sum(self, call: Spoken, over: WindowSpan | None) -> None:
        if len(call.arguments) != 1 or self.sums is None:
            return
        argument = call.arguments[0]
        added = self.sums.added.get(call.start, Summand.UNKNOWN)
        if added is Summand.UNKNOWN:
            added = cast_to(self._of(argument))
        if added is Summand.NO_NUMBERS:
            return  # an error in any order
        pivoted = self.spans.in_pivot(call.at)
        where = " in a window" if over is not None else " in a PIVOT" * pivoted
        if added is Summand.UNKNOWN or (added is Summand.FLOATING and where):
            where *= added is Summand.FLOATING
            fix = f"add up exact numbers: {call.name}(cast({self._of(argument)} as decimal(38, 6)))"
            self._refuse(call, f"{call.name}() of {added.value}{where}", fix)
        elif added is Summand.FLOATING:
            self._fold(call, argument)
        elif added is Summand.INTEGER and call.name != "sum":
            self._exact_average(call, argument)

    def _moment(self, call: Spoken, over: WindowSpan | None) -> None:
        """Compute a statistic of floating-point numbers from the least to the greatest."""
        where = "window" if over is not None else "PIVOT" * self.spans.in_pivot(call.at)
        if where:
            fix = "compute it in a subquery with GROUP BY, and join that"
            self._refuse(call, f"{call.name}() in a {where}", fix)
            return
        if call.name in MOMENTS and len(call.arguments) == 1:
            start, end = moment(call.name)
        elif call.name in _AVERAGES and self._is_exact(call):
            self._average(call)
            return
        elif call.name in PAIRED_MOMENTS and len(call.arguments) == 2:
            start, end = paired_moment(call.name)
            one, other = call.arguments
            either: Parts = ("IF((", one, ") IS NULL OR (", other, ") IS NULL, NULL, ")
            both: Parts = ("struct((", one, ") AS u, (", other, ") AS w))")
            self.edits.add((one[0], other[1]), (*either, *both), call.at, inner=call.at + 1)
        else:
            return
        self._rename(call, "collect_list")
        self._wrap(call, start, end)
        self._keep_name(call)

    def _is_exact(self, call: Spoken) -> bool:
        """Return whether the averaged values are decimal; refuse the call if that is not known."""
        if self.sums is None or len(call.arguments) != 2:
            return False
        argument = self._of(call.arguments[_AVERAGES[call.name]])
        added = self.sums.added.get(call.start, Summand.UNKNOWN)
        if added is Summand.UNKNOWN:
            added = cast_to(argument)
        if added is Summand.UNKNOWN:
            fix = f"say its type: cast({argument} as double), or as decimal(38, 6)"
            self._refuse(call, f"{call.name}() of {added.value}", fix)
        return added is Summand.EXACT

    def _average(self, call: Spoken) -> None:
        """Average the exact values of pairs as `avg` does, which gives an exact number."""
        one, other = call.arguments
        value = call.arguments[_AVERAGES[call.name]]
        parts: Parts = ("IF((", one, ") IS NULL OR (", other, ") IS NULL, NULL, (", value, "))")
        self.edits.add((one[0], other[1]), parts, call.at, inner=call.at + 1)
        self._rename(call, "avg")
        self._keep_name(call)

    def _fold(self, call: Spoken, argument: Span) -> None:
        """Add up floating-point numbers from the least to the greatest."""
        self._rename(call, "collect_list")
        self.edits.around(argument, "CAST(", (" AS DOUBLE)",), call.at)
        start = "aggregate(sort_array("
        end: Parts = (
            "), CAST(NULL AS DOUBLE), (__odf_s, __odf_v) -> coalesce(__odf_s + __odf_v, __odf_v))",
        )
        if call.name != "sum":
            start, end = f"({start}", (*end, *self._average_parts(call, argument))
        self.edits.around((call.start, call.end), start, end, call.at)

    def _exact_average(self, call: Spoken, argument: Span) -> None:
        """Add up integers as decimals, not as floating-point numbers."""
        self._rename(call, "sum")
        self.edits.around(argument, "CAST(", (" AS DECIMAL(38, 0))",), call.at)
        end: Parts = (" AS DOUBLE)", *self._average_parts(call, argument))
        self.edits.around((call.start, call.end), "(CAST(", end, call.at)

    def _average_parts(self, call: Spoken, argument: Span) -> Parts:
        distinct = "DISTINCT " if call.distinct else ""
        behind = (call.close + 1, call.end)
        return (f" / nullif(count({distinct}", argument, ")", behind, ", 0))")

    # Clauses

    def _clauses(self) -> None:
        """Check the clauses that select some of the rows."""
        for at, kind in enumerate(self.spans.kinds):
            if kind in {"LIMIT", "OFFSET"} and self.spans.is_clause(at):
                self._first_rows(at)
            elif kind == "L_PAREN" and at > 1 and self.spans.kinds[at - 2] == "DOT":
                name = self._of(self.spans.span(at - 1, at))  # rules know functions by plain names
                self._refuse_at(at - 1, f"{name}() by a qualified name", f"write {name}(...)")
            elif kind in _CLAUSES:
                self._refuse_at(at, self.spans.tokens[at].text.upper(), _CLAUSES[kind])

    def _first_rows(self, at: int) -> None:
        """Order rows that LIMIT or OFFSET counts completely: those of equal rank by all columns."""
        clause = self.spans.tokens[at].text.upper()
        if self.spans.kinds[at + 1] == "ALL":
            return
        select = self.spans.select(at)
        keys = self.spans.listed(select, "ORDER_BY")
        if not keys:
            fix = f"say which rows come first: order by x {clause.lower()} ..."
            self._refuse_at(at, f"{clause} without ORDER BY", fix)
            return
        if self._of(keys[0]).upper().split()[0] == "ALL":
            self._refuse_at(at, f"{clause} behind ORDER BY ALL", "write them out: order by 1, 2")
            return
        limit = self.spans.of_select(select, "LIMIT") if clause == "OFFSET" else None
        twice = limit is not None and self.spans.kinds[limit + 1] != "ALL"
        if self.sums is None or twice:
            return
        columns = count(self.spans, select, self.sums.stars)
        if columns is None:
            fix = "name the columns: select a, b, ... in place of a star or a table function"
            self._refuse_at(at, f"{clause} over columns that cannot be counted", fix)
            return
        end = keys[-1][1]
        more = "".join(f", {number}" for number in range(1, columns + 1))
        self.edits.add((end, end), (more,), SHARED, closes=True)

    # Edits

    def _wrap(self, call: Spoken, start: str, end: str) -> None:
        self.edits.around((call.start, call.end), start, (end,), call.at)

    def _rename(self, call: Spoken, name: str) -> None:
        token = self.spans.tokens[call.at]
        self.edits.add((token.start, token.end + 1), (name,), call.at)

    def _of(self, span: Span) -> str:
        return self.text[slice(*span)]

    def _refuse(self, call: Spoken, what: str, fix: str) -> None:
        self._refuse_at(call.at, what, fix)

    def _refuse_at(self, at: int, what: str, fix: str) -> None:
        token = self.spans.tokens[at]
        place = TextPlace.of(self.text, token.start, token.end + 1 - token.start)
        self.problems.append(Unordered(Name(what, place), fix))


def _is_all(frame: str) -> bool:
    return frame.endswith("BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")


def _from_start(frame: str) -> bool:
    """Return whether a frame goes from the first row to the current one, as one does by default."""
    return frame in {"", "RANGE UNBOUNDED PRECEDING"} or (
        frame == "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )


_NULLS = re.compile(r"\s+(?:IGNORE|RESPECT)\s+NULLS", re.IGNORECASE)
_AFTER = ("ORDER_BY", "SORT_BY", "CLUSTER_BY", "DISTRIBUTE_BY", "LIMIT", "OFFSET")
_LISTS = frozenset({"collect_list", "collect_set", "array_agg"})
_TEXTS = frozenset({"listagg", "string_agg"})
_FIRSTS = frozenset({"first", "first_value", "last", "last_value", "any_value"})
_FRAMED = _FIRSTS | {"nth_value"}
_POSITIONS = _FRAMED | {"row_number", "ntile", "lag", "lead"}
_CLAUSES = {
    "TABLE_SAMPLE": "choose rows by their values: where hash(x) % 10 = 0",
    "COLLATE": "compare lower(x), which is one spelling",
}
_SKETCHED = "use what is exact: percentile(), median(), or count() by groups"
_REFUSED = {
    **dict.fromkeys(
        ("vector_avg", "vector_sum"), "add up exact numbers: sum(cast(x[0] as decimal(38, 6)))"
    ),
    **dict.fromkeys(("try_sum", "try_avg"), "use the function that fails when it overflows"),
    **dict.fromkeys(
        [
            "percentile_approx", "approx_percentile", "histogram_numeric", "schema_of_variant_agg",
            "count_min_sketch", "collect_union", "measure",
            *(each for each in MANY_ROWS if "sketch" in each or each.startswith("approx_top_k")),
            *(each for each in MANY_ROWS if each.startswith(("hll_", "kll_", "theta_", "tuple_"))),
        ],
        _SKETCHED,
    ),
    "collate": _CLAUSES["COLLATE"],
}  # fmt: skip
_AVERAGES = {"regr_avgy": 0, "regr_avgx": 1}
"""Statistics of pairs that are the average of one of the two values."""
_KNOWN = MANY_ROWS | _POSITIONS | _REFUSED.keys()
