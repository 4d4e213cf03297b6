"""What in a query depends on the order of rows, and how it is made to depend on values alone.

Rows have no order beyond their values: neither the portions in which they came nor the number of
threads may show.  Where values can decide, the text is changed in place, else it is refused:

    row_number() over (order by v)   row_number() over (order by v, struct(*))
    collect_list(v)                  sort_array(collect_list(v))
    max_by(v, t)                     max_by(v, IF((t) IS NULL, NULL, struct((t), (v))))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from odfbuild.planner.sql.carry import CarriedText
from odfbuild.planner.sql.refusals import MANY_ROWS
from odfbuild.planner.sql.spans import Over, Span, Spans, Spoken
from odfbuild.planner.sql.statement import Name, Place
from odfbuild.planner.sql.sums import Added, Sums, cast_to

__all__ = ["Unordered", "settled", "unordered"]

Parts: TypeAlias = "tuple[str | Span, ...]"
"""A text of new pieces and copies of old ones."""

_SHARED = -1  # the owner of edits that belong to a window, not to one call


@dataclass(frozen=True, slots=True)
class Unordered:
    """Something that depends on the order of rows, and how to say it otherwise."""

    what: Name
    fix: str


def unordered(text: str, sums: Sums | None = None) -> tuple[Unordered, ...]:
    """Return what in a text must be refused, in its order; without `sums` not by types.

    Raises SqlTextError.
    """
    return tuple(_Ordering(text, sums).problems)


def settled(text: str, sums: Sums) -> CarriedText:
    """Return the text with everything decided by values.  Raises SqlTextError."""
    return CarriedText(text, _Ordering(text, sums).changes())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    """A piece to put in place of another; `owner` is the call that it is for."""

    at: Span
    parts: Parts
    owner: int
    closes: bool = False

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """At one place inner calls are closed before outer ones, and opened after them."""
        owner = -self.owner if self.closes else self.owner
        return self.at[0], 0 if self.closes else 1, owner, self.at[1]


class _Ordering:
    """One pass over the words of a text."""

    def __init__(self, text: str, sums: Sums | None) -> None:
        from odfbuild.planner.sql.text import tokens_of

        self.text, self.sums = text, sums
        self.spans = Spans(text, tokens_of(text))
        self.edits: list[_Edit] = []
        self.problems: list[Unordered] = []
        for call in self.spans.calls():
            if call.name in _KNOWN:
                self._call(call)
        self.problems += _clauses(self.spans)
        self.problems.sort(key=lambda each: each.what.place.start)

    def changes(self) -> tuple[tuple[int, int, str], ...]:
        ordered = sorted(self.edits, key=lambda each: each.rank)
        return tuple((*each.at, self._made(each)) for each in ordered)

    # Rules

    def _call(self, call: Spoken) -> None:
        over = call.behind.over
        known = self._known(call, over)
        if call.name in _REFUSED:
            self._refuse(call, f"{call.name}()", _REFUSED[call.name])
        elif over is not None and call.name in _POSITIONS:
            self._position(call, over, known)
        elif call.name in _FIRSTS:
            fix = "say which row by its values: min(x), max(x), or max_by(x, event_time)"
            self._refuse(call, f"{call.name}()", fix)
        elif call.name in MANY_ROWS:
            if over is not None and known is None:
                self._refuse(call, f"{call.name}()", "write the window out, behind OVER")
                return
            if known is not None and known.frame.startswith("ROWS") and not _is_all(known.frame):
                self._extend(call, over, known)
            self._aggregate(call, known)

    def _known(self, call: Spoken, over: Over | None) -> Over | None:
        """Return a window as it is written, also where a name stands for it."""
        if over is None or over.name is None:
            return over
        name = self.text[slice(*over.name)].strip("`")
        return self.spans.window(name, self.spans.select(call.at))

    def _position(self, call: Spoken, over: Over, known: Over | None) -> None:
        """Order the rows of a window in full, where that changes no frame."""
        frame = "" if known is None else known.frame
        if call.name in _FRAMED and not frame.startswith("ROWS") and not _is_all(frame):
            first = call.name in {"first", "first_value", "any_value"} and _from_start(frame)
            if not first or call.behind.ignores_nulls or len(call.arguments) > 1:
                fix = "say which rows: ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
                self._refuse(call, f"{call.name}() with rows of equal rank", fix)
                return
        self._extend(call, over, known)

    def _extend(self, call: Spoken, over: Over | None, known: Over | None) -> None:
        """Put all values behind the ORDER BY of a window."""
        what = f"{call.name}() over rows"
        if over is None or known is None or known.based:
            self._refuse(call, what, "write the window out, behind OVER")
            return
        select = self.spans.select(call.at)
        if known.end is None:
            self._refuse(call, what, "give its window an ORDER BY")
            return
        if self._is_behind(call, select):
            fix = "compute it in a subquery: select * from (select *, ... as n from t) where n = 1"
            self._refuse(call, f"{call.name}() behind the SELECT list", fix)
            return
        keys = self._keys(call, select)
        if keys is None:
            return
        more: Parts = tuple(part for key in keys for part in (", ", key))
        if over.name is None:
            at = (known.end, known.end)
            self.edits.append(_Edit(at=at, parts=more, owner=_SHARED, closes=True))
            return
        start, end = known.inside
        parts: Parts = ("(", (start, known.end), *more, (known.end, end), ")")
        self.edits.append(_Edit(at=over.name, parts=parts, owner=_SHARED))

    def _is_behind(self, call: Spoken, select: range) -> bool:
        """Tell whether a call stands where `struct(*)` means nothing."""
        found = (self.spans.of_select(select, clause) for clause in ("QUALIFY", "ORDER_BY"))
        return any(at is not None and at < call.at for at in found)

    def _keys(self, call: Spoken, select: range) -> Sequence[str | Span] | None:
        """Return what tells the rows of a SELECT apart."""
        group = self.spans.group(select)
        if group is None:
            return ("struct(*)",)
        for key in group:
            text = self.text[slice(*key)].upper()
            if text.isdigit() or text == "ALL" or text.startswith(_SETS):
                fix = "group in a subquery, and number the rows of that"
                self._refuse(call, f"{call.name}() over groups", fix)
                return None
        return group

    def _aggregate(self, call: Spoken, over: Over | None) -> None:
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

    def _text(self, call: Spoken) -> None:
        """Put the text itself into the order, last, but where DISTINCT asks for it anyway."""
        within = call.behind.within
        if within is None and call.arguments:
            at = (call.close + 1, call.close + 1)
            parts: Parts = (" WITHIN GROUP (ORDER BY ", call.arguments[0], ")")
            self.edits.append(_Edit(at=at, parts=parts, owner=call.at))
        elif within is not None and not call.distinct:
            at = (within[1], within[1])
            self.edits.append(_Edit(at=at, parts=(", ", call.arguments[0]), owner=call.at))

    def _by(self, call: Spoken) -> None:
        if len(call.arguments) != 2:
            fix = f"use {call.name}() with two arguments, or rank() and a filter"
            self._refuse(call, f"{call.name}() of several rows", fix)
            return
        value, by = call.arguments
        parts: Parts = (") IS NULL, NULL, struct((", by, "), (", value, ")))")
        self._around(by, "IF((", parts, call.at)

    def _mode(self, call: Spoken) -> None:
        if len(call.arguments) == 1 and call.behind.within is None:
            at = (call.close, call.close)
            self.edits.append(_Edit(at=at, parts=(", true",), owner=call.at))
        elif len(call.arguments) == 2 and self._of(call.arguments[1]).lower() != "true":
            self._refuse(call, "mode(), of two that are as frequent,", "write mode(x, true)")

    def _sum(self, call: Spoken, over: Over | None) -> None:
        pivoted = self.spans.in_pivot(call.at)  # types of columns are not followed into it
        if len(call.arguments) != 1 or (self.sums is None and not pivoted):
            return
        argument = call.arguments[0]
        known = {} if self.sums is None else self.sums
        added = known.get(call.start, Added.UNKNOWN)
        if added is Added.UNKNOWN:
            added = cast_to(self._of(argument))
        if added is Added.UNKNOWN or (added is Added.FLOATING and over is not None):
            where = " in a window" if over is not None and added is Added.FLOATING else ""
            fix = f"add up exact numbers: {call.name}(cast({self._of(argument)} as decimal(38, 6)))"
            self._refuse(call, f"{call.name}() of {added.value}{where}", fix)
        elif added is Added.FLOATING:
            self._fold(call, argument)
        elif added is Added.INTEGER and call.name != "sum":
            self._exact_average(call, argument)

    def _fold(self, call: Spoken, argument: Span) -> None:
        """Add up floating-point numbers from the least to the greatest."""
        self._rename(call, "collect_list")
        self._around(argument, "CAST(", (" AS DOUBLE)",), call.at)
        start = "aggregate(sort_array("
        end: Parts = (
            "), CAST(NULL AS DOUBLE), (__odf_s, __odf_v) -> coalesce(__odf_s + __odf_v, __odf_v))",
        )
        if call.name != "sum":
            start, end = f"({start}", (*end, *self._counted(call, argument))
        self._around((call.start, call.end), start, end, call.at)

    def _exact_average(self, call: Spoken, argument: Span) -> None:
        """Add up integers as decimals, not as floating-point numbers."""
        self._rename(call, "sum")
        self._around(argument, "CAST(", (" AS DECIMAL(38, 0))",), call.at)
        end: Parts = (" AS DOUBLE)", *self._counted(call, argument))
        self._around((call.start, call.end), "(CAST(", end, call.at)

    def _counted(self, call: Spoken, argument: Span) -> Parts:
        distinct = "DISTINCT " if call.distinct else ""
        behind = (call.close + 1, call.end)
        return (f" / nullif(count({distinct}", argument, ")", behind, ", 0))")

    # Edits

    def _wrap(self, call: Spoken, start: str, end: str) -> None:
        self._around((call.start, call.end), start, (end,), call.at)

    def _around(self, span: Span, start: str, end: Parts, owner: int) -> None:
        self.edits.append(_Edit(at=(span[0], span[0]), parts=(start,), owner=owner))
        self.edits.append(_Edit(at=(span[1], span[1]), parts=end, owner=owner, closes=True))

    def _rename(self, call: Spoken, name: str) -> None:
        token = self.spans.tokens[call.at]
        self.edits.append(_Edit(at=(token.start, token.end + 1), parts=(name,), owner=call.at))

    def _made(self, edit: _Edit) -> str:
        pieces = (p if isinstance(p, str) else self._copy(p, edit.owner) for p in edit.parts)
        return "".join(pieces)

    def _copy(self, span: Span, owner: int) -> str:
        """Return a piece of the text with the changes inside it, but those of calls around it."""
        inside = [
            each
            for each in sorted(self.edits, key=lambda each: each.rank)
            if span[0] <= each.at[0] and each.at[1] <= span[1]
            if each.owner > owner or (each.owner == _SHARED and owner != _SHARED)
        ]
        pieces, at = [], span[0]
        for each in inside:
            pieces += [self.text[at : each.at[0]], self._made(each)]
            at = each.at[1]
        return "".join([*pieces, self.text[at : span[1]]])

    def _of(self, span: Span) -> str:
        return self.text[slice(*span)]

    def _refuse(self, call: Spoken, what: str, fix: str) -> None:
        token = self.spans.tokens[call.at]
        place = Place.of(self.text, token.start, token.end + 1 - token.start)
        self.problems.append(Unordered(Name(what, place), fix))


def _clauses(spans: Spans) -> Iterator[Unordered]:
    """Yield the clauses that take some rows and leave others."""
    for at, kind in enumerate(spans.kinds):
        fix = _CLAUSES.get(kind)
        after = spans.kinds[at + 1] if at + 1 < len(spans.kinds) else ""
        if fix is None or (kind in {"LIMIT", "OFFSET"} and after not in {"NUMBER", "L_PAREN"}):
            continue
        token = spans.tokens[at]
        place = Place.of(spans.text, token.start, token.end + 1 - token.start)
        yield Unordered(Name(token.text.upper(), place), fix)


def _is_all(frame: str) -> bool:
    return frame.endswith("BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")


def _from_start(frame: str) -> bool:
    """Tell whether a frame goes from the first row to the current one, as one does by default."""
    return frame in {"", "RANGE UNBOUNDED PRECEDING"} or (
        frame == "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )


_SETS = ("ROLLUP", "CUBE", "GROUPING")
_LISTS = frozenset({"collect_list", "collect_set", "array_agg"})
_TEXTS = frozenset({"listagg", "string_agg"})
_FIRSTS = frozenset({"first", "first_value", "last", "last_value", "any_value"})
_FRAMED = _FIRSTS | {"nth_value"}
_POSITIONS = _FRAMED | {"row_number", "ntile", "lag", "lead"}
_NUMBERED = (
    "number the rows and filter: select * from (select *, row_number() over (order by x) as n "
    "from t) where n <= 10"
)
_CLAUSES = {
    "LIMIT": _NUMBERED,
    "OFFSET": _NUMBERED,
    "TABLE_SAMPLE": "choose rows by their values: where hash(x) % 10 = 0",
    "COLLATE": "compare lower(x), which is one spelling",
}
_EXACT = "work it out from exact sums: sum(cast(x as decimal(38, 6))) and count(x)"
_SKETCHED = "use what is exact: percentile(), median(), or count() by groups"
_REFUSED = {
    **dict.fromkeys(
        [
            "std", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp",
            "corr", "covar_pop", "covar_samp", "skewness", "kurtosis", "regr_avgx", "regr_avgy",
            "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
            "vector_avg", "vector_sum",
        ],
        _EXACT,
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
_KNOWN = MANY_ROWS | _POSITIONS | _REFUSED.keys()
