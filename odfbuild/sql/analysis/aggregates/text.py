"""A SELECT with GROUP BY as two texts: the counts of its rows, and the result from them.  Pure.

Both are the user's own text with some pieces replaced, so that errors have positions in that text.
"""

from __future__ import annotations

# ruff: noqa: S608 - the texts are made of quoted names and of the user's own words
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from odfbuild.odf.events import (
    DataSchema,
    DataTypeDecimal,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfbuild.sql.analysis.keys.group_names import GroupNames
from odfbuild.sql.analysis.row_by_row import is_aggregate, keys_of
from odfbuild.sql.columns import NamedRelations
from odfbuild.sql.columns.expressions import output_name
from odfbuild.sql.columns.functions import AGGREGATES
from odfbuild.sql.columns.output import RelationColumns
from odfbuild.sql.columns.relations import Relations
from odfbuild.sql.columns.scope import NameScope, Resolution
from odfbuild.sql.columns.types import Value
from odfbuild.sql.text.edits import CarriedText
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Expr,
    GroupBy,
    Lambda,
    Literal,
    Operation,
    QueryShape,
    Select,
    SelectItem,
    StarExpr,
    Subquery,
    TextPlace,
    Unknown,
    children,
    walk,
)
from odfbuild.sql.text.spans import QuerySpans, Span, Spoken
from odfbuild.sql.text.statement import Statement
from odfbuild.sql.text.types import BIGINT, BYTE, DOUBLE, FLOAT, INT, SHORT, Interval, SqlType
from odfbuild.values import dataclass

_LEAST = frozenset({"min", "any_value"})
_ENDS = _LEAST | {"max"}
_COUNTED = _ENDS | {"count"}
_ADDED = frozenset({"sum", "avg"})
_INTEGERS = (BYTE, SHORT, INT, BIGINT)
_DIGITS = 28  # more may overflow in 38 digits where the query's own sum does not
_AVERAGED = 18  # the rounding of a quotient of more cannot be expressed exactly


@dataclass(frozen=True, slots=True)
class Adding:
    """The exact type of the values of a sum or an average; integers have the scale None."""

    precision: int
    scale: int | None


@dataclass(frozen=True, slots=True)
class Arguments:
    """The types of the values of the sums and averages of a group, by the offsets of the calls.

    `columns` are the names of the columns that the group reads, None if not all are known.
    """

    adding: Mapping[int, Adding]
    columns: frozenset[str] | None


def exact_arguments(
    group: Select,
    shapes: Sequence[tuple[str | None, QueryShape]],
    inputs: Mapping[str, DataSchema | None],
) -> Arguments | None:
    """Return the arguments of a group; None if an aggregate needs more than numbers."""
    found = _arguments(group, shapes, inputs)
    return None if found is None or found[1] else found[0]


def loses_zeros(
    group: Select,
    shapes: Sequence[tuple[str | None, QueryShape]],
    inputs: Mapping[str, DataSchema | None],
) -> bool:
    """Return whether numbers would be enough for a group, but for the sign of a zero."""
    found = _arguments(group, shapes, inputs)
    return found is not None and found[1]


def _arguments(
    group: Select,
    shapes: Sequence[tuple[str | None, QueryShape]],
    inputs: Mapping[str, DataSchema | None],
) -> tuple[Arguments, bool] | None:
    """Return the arguments of a group, and whether the sign of a zero may be lost."""
    calls = list(_aggregates(group))
    if any(call.name not in _COUNTED | _ADDED or call.distinct or call.order for call in calls):
        return None
    if any(call.place is None or len(call.args) != 1 for call in calls):
        return None
    reader = _Kinds(inputs, shapes)
    kinds = {call.place.start: reader.kinds.get(id(call)) for call in calls if call.place}
    if any(isinstance(kind, Interval) for kind in kinds.values()):
        return None
    found = {}
    for call in calls:
        if call.name in _ADDED and call.place is not None:
            adding = _adding(call.name, kinds[call.place.start])
            if adding is None:
                return None
            found[call.place.start] = adding
    ends = (id(call) for call in calls if call.name in _ENDS)
    loses = any(each not in reader.copied and _has_zeros(reader.kinds.get(each)) for each in ends)
    return Arguments(found, reader.columns.get(id(group))), loses


def _aggregates(select: Select) -> Iterator[Call]:
    exprs = [output.value for output in select.outputs]
    exprs += [] if select.having is None else [select.having]
    for expr in exprs:
        for each in walk(expr):
            if isinstance(each, Call) and each.name in AGGREGATES:
                yield each


def _adding(name: str, kind: SqlType | None) -> Adding | None:
    """Return the type of summands, None if the sum depends on their order or may overflow by it."""
    if kind in _INTEGERS and name == "sum":
        return Adding(19, None)
    most = _DIGITS if name == "sum" else _AVERAGED
    if isinstance(kind, DataTypeDecimal) and kind.scale >= 0 and kind.precision <= most:
        return Adding(kind.precision, kind.scale)
    return None


def _has_zeros(kind: SqlType | None) -> bool:
    """Return whether equal values of a type may differ: 0.0 and -0.0, which CAST distinguishes.

    The state of a group has one zero, as the columns of inputs have.
    """
    match kind:
        case DataTypeOption(inner=inner):
            return _has_zeros(inner)
        case DataTypeList(item_type=item):
            return _has_zeros(item)
        case DataTypeStruct(fields=fields):
            return any(_has_zeros(each.type) for each in fields)
        case DataTypeMap():
            return True
    return kind is None or kind in (FLOAT, DOUBLE)


class _Kinds(Relations):
    """The types of the arguments of aggregates, by the identity of their calls.

    `copied` are the calls whose argument is a column of floating-point numbers of an input;
    `columns` are the names that each SELECT with groups reads, by its identity.
    """

    def __init__(
        self,
        inputs: Mapping[str, DataSchema | None],
        shapes: Sequence[tuple[str | None, QueryShape]],
    ) -> None:
        tables = NamedRelations(inputs)
        super().__init__(tables.rows)
        self.kinds: dict[int, SqlType | None] = {}
        self.copied: set[int] = set()
        self.columns: dict[int, frozenset[str] | None] = {}
        for name, shape in shapes:
            rows = self.query(shape)
            if name is not None:
                tables.steps[name] = rows

    def aggregate(self, expr: Call, scope: NameScope) -> Value:
        if len(expr.args) == 1:
            argument = expr.args[0]
            self.kinds[id(expr)] = self.sourced(argument, scope)[0].kind
            found = scope.resolve(argument.parts) if isinstance(argument, Column) else None
            if (
                isinstance(found, Resolution)
                and found.copied
                and found.value.kind in (FLOAT, DOUBLE)
            ):
                self.copied.add(id(expr))
        return super().aggregate(expr, scope)

    def _group(
        self, group: GroupBy, select: Select, given: RelationColumns, scope: NameScope
    ) -> None:
        rows = scope.rows
        names = frozenset(each.name for each in (*rows.columns, *rows.hidden))
        self.columns[id(select)] = None if rows.open else names
        super()._group(group, select, given, scope)


Edit: TypeAlias = "tuple[int, int, str]"

_DOUBLES = 15  # digits up to which Spark averages decimals as doubles


class UnsplitGroupError(ValueError):
    """A group that cannot be expressed in two texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptText:
    """An argument, as the text of its value, and the state of its values."""

    text: str
    scale: int | None = None
    least: bool = False
    greatest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupText:
    """The two texts, the number of keys, and the stored arguments, in the order of the columns."""

    rows: CarriedText
    result: CarriedText
    keys: int
    kept: tuple[KeptText, ...]


def group_text(query: Statement, group: Select, found: Arguments, groups: str) -> GroupText:
    """Return the texts of a SELECT that groups; `groups` is the relation that the second reads.

    Raises Unspoken.
    """
    return _TextWriter(query, group, found).written(groups)


class _TextWriter:
    def __init__(self, query: Statement, group: Select, found: Arguments) -> None:
        self.text, self.group = query.text, group
        self.adding, self.columns = found.adding, found.columns
        self.names_of = GroupNames(group)
        self.spans = QuerySpans(query.text, query.tokens)
        self.starts = {token.start: at for at, token in enumerate(self.spans.tokens)}
        self.calls: dict[int, Spoken] = {call.start: call for call in self.spans.calls()}
        self.select = self.spans.select(self._word(self._a_place()))
        self.items = self._items()
        self.values = [self._value(*each) for each in zip(group.outputs, self.items, strict=True)]
        self.keys = self._keys()
        self.names = [self._name(each) for each in group.outputs]
        self.kept: dict[str, KeptText] = {}
        stars = any(isinstance(each.value, StarExpr) for each in group.outputs)
        if stars or len(set(self.names)) < len(self.names) or self.names_of.is_ambiguous():
            raise UnsplitGroupError

    def written(self, groups: str) -> GroupText:
        outputs = [edit for each in self._outputs() for edit in each]
        having = list(self._having())
        first, last = self.items[0][0], self.items[-1][1]
        ends = len(self.text) if self.select.stop == len(self.spans.tokens) else self._end()
        begins = self.spans.tokens[self.select.start].start
        listed = ", ".join(map(_quote, self.names))
        if self.group.having is None:
            result = [(begins, first, "SELECT "), *outputs, (last, ends, f" FROM {groups} ")]
        else:
            start, end = self._having_span()
            result = [
                (begins, first, f"SELECT {listed} FROM (SELECT "),
                *outputs,
                (last, start, f", {groups}.* FROM {groups}) WHERE ("),
                *having,
                (end, ends, ") "),
            ]
        return GroupText(
            rows=CarriedText(self.text, self._rows()),
            result=CarriedText(self.text, tuple(result)),
            keys=len(self.keys),
            kept=tuple(self.kept.values()),
        )

    def _rows(self) -> tuple[Edit, ...]:
        keys = [f"{text} AS `__odf_k{number}`" for number, (_, text) in enumerate(self.keys)]
        args = [f"{each.text} AS `__odf_a{n}`" for n, each in enumerate(self.kept.values())]
        grouped = self.spans.tokens[self._clause("GROUP_BY")].start
        edits = [(self.items[0][0], self.items[-1][1], ", ".join([*keys, *args]))]
        begins = self.spans.tokens[self.select.start].start
        if begins:
            edits.insert(0, (0, begins, ""))
        return (*edits, (grouped, len(self.text), ""))

    # Places in the text

    def _word(self, place: TextPlace) -> int:
        if place.start not in self.starts:
            raise UnsplitGroupError
        return self.starts[place.start]

    def _a_place(self) -> TextPlace:
        """Return the position of an item of the SELECT list."""
        for output in self.group.outputs:
            if output.place is not None:
                return output.place
        raise UnsplitGroupError

    def _clause(self, kind: str) -> int:
        at = self.spans.of_select(self.select, kind)
        if at is None:
            raise UnsplitGroupError
        return at

    def _items(self) -> tuple[Span, ...]:
        items = self.spans.items(self.select)
        if len(items) != len(self.group.outputs):
            raise UnsplitGroupError
        return items

    def _end(self) -> int:
        end: int = self.spans.tokens[self.select.stop].start
        return end

    def _having_span(self) -> Span:
        return self.spans.span(self._clause("HAVING") + 1, self.select.stop)

    def _value(self, output: SelectItem, item: Span) -> Span:
        """Return an item without its alias."""
        if not output.aliases:
            return item
        if len(output.aliases) > 1 or output.place is None:
            raise UnsplitGroupError
        alias = self._word(output.place)
        before = alias - 1 if self.spans.kinds[alias - 1] == "ALIAS" else alias
        start, end = item[0], self.spans.tokens[before - 1].end + 1
        if self.spans.tokens[alias].end + 1 != item[1] or end <= start:
            raise UnsplitGroupError
        return start, end

    # Keys

    def _keys(self) -> list[tuple[Expr, str]]:
        """Return the keys and their texts."""
        group = self.group.group
        if group is None or group.sets:
            raise UnsplitGroupError
        exprs = keys_of(group, self.group)
        if any(isinstance(each, Literal) and each.kind == "null" for each in exprs):
            raise UnsplitGroupError
        if group.all:
            return [(each, self._text_of(each)) for each in exprs]
        if any(key is expr and _is_place(key) for key, expr in zip(group.keys, exprs, strict=True)):
            raise UnsplitGroupError  # not the position of an output: Spark refuses it
        written = self.spans.group(self.select) or ()
        if len(written) != len(group.keys):
            raise UnsplitGroupError
        found = []
        for key, expr, span in zip(group.keys, exprs, written, strict=True):
            value = self._aliased_value(key) if expr is key else expr
            found.append((expr, self._of(span)) if value is None else (value, self._text_of(value)))
        return found

    def _text_of(self, expr: Expr) -> str:
        at = next(n for n, each in enumerate(self.group.outputs) if each.value is expr)
        return self._of(self.values[at])

    def _aliased_value(self, key: Expr) -> Expr | None:
        """Return the value of which a key is an alias; None if it is not an alias.

        A column of the same name takes precedence.
        """
        for output in self.group.outputs:
            for each in walk(key):
                if not isinstance(each, Column) or each.parts[0] not in output.aliases:
                    continue
                if self.names_of.same(output.value, each):
                    continue
                if self.columns is None or len(each.parts) > 1:
                    raise UnsplitGroupError
                if each.name not in self.columns:
                    if each is not key:
                        raise UnsplitGroupError
                    return output.value
        return None

    # Edits of the second text

    def _outputs(self) -> Iterator[list[Edit]]:
        rows = zip(self.group.outputs, self.values, self.names, strict=True)
        for output, span, name in rows:
            edits = list(self._edits(output.value, span, ()))
            if not output.aliases:
                edits.append((span[1], span[1], f" AS {_quote(name)}"))
            yield edits

    def _having(self) -> Iterator[Edit]:
        if self.group.having is not None:
            aliases = [name for output in self.group.outputs for name in output.aliases]
            yield from self._edits(self.group.having, None, aliases)

    def _edits(self, expr: Expr, span: Span | None, aliases: Collection[str]) -> Iterator[Edit]:
        """Yield the edits of an expression; `span` is its extent, if that is known."""
        key = next(
            (n for n, (each, _) in enumerate(self.keys) if self.names_of.same(each, expr)), None
        )
        place = self._span_of(expr) or span
        if isinstance(expr, Column) and len(expr.parts) == 1 and expr.name in aliases:
            return
        if key is not None and place is not None and not isinstance(expr, Literal):
            yield (*place, f"`__odf_k{key}`")
        elif isinstance(expr, Call) and is_aggregate(expr):
            if place is None or any(_is_named(each, aliases) for each in walk(expr)):
                raise UnsplitGroupError
            yield (*place, self._aggregate(expr))
        elif isinstance(expr, Column | Subquery | Unknown | StarExpr | Lambda):
            raise UnsplitGroupError
        else:
            inner = [list(self._edits(each, None, aliases)) for each in children(expr)]
            yield from sorted(edit for edits in inner for edit in edits)

    def _span_of(self, expr: Expr) -> Span | None:
        if isinstance(expr, Call) and expr.place is not None:
            spoken = self.calls.get(expr.place.start)
            return None if spoken is None else (spoken.start, spoken.end)
        if isinstance(expr, Column) and expr.place is not None:
            at = self._word(expr.place)
            first = at - 2 * (len(expr.parts) - 1)
            if first < 0 or any(k != "DOT" for k in self.spans.kinds[first + 1 : at : 2]):
                raise UnsplitGroupError
            return self.spans.span(first, at + 1)
        return None

    # Aggregates

    def _aggregate(self, call: Call) -> str:
        assert call.place is not None  # noqa: S101 - it was found by it
        spoken = self.calls.get(call.place.start)
        if spoken is None:  # its name is qualified
            raise UnsplitGroupError
        if call.name == "count" and isinstance(call.args[0], StarExpr):
            if call.args[0].qualifier or call.args[0].excluded:
                raise UnsplitGroupError
            if call.where is None:
                return "`__odf_n`"
            return f"`__odf_c{self._number_of(self._filtered_value(spoken, '1'))}`"
        if len(spoken.arguments) != 1:
            raise UnsplitGroupError
        text = self._of(spoken.arguments[0])
        text = text if call.where is None else self._filtered_value(spoken, text)
        adding = self.adding.get(call.place.start)
        scale = None if adding is None else adding.scale or 0
        at = self._number_of(
            text, scale=scale, least=call.name in _LEAST, greatest=call.name == "max"
        )
        if call.name == "count":
            return f"`__odf_c{at}`"
        if adding is None:
            return f"`__odf_{'l' if call.name in _LEAST else 'h'}{at}`"
        return _sum(adding, at) if call.name == "sum" else _average(adding, at)

    def _filtered_value(self, spoken: Spoken, value: str) -> str:
        """Return a value that is null where FILTER excludes a row."""
        words = self.spans.kinds[spoken.at :]
        close = next(n for n, token in enumerate(self.spans.tokens) if token.start == spoken.close)
        inside = close + 2
        if words[close + 1 - spoken.at : close + 3 - spoken.at] != ["FILTER", "L_PAREN"]:
            raise UnsplitGroupError
        condition = self._of(self.spans.span(inside + 2, self.spans.closing[inside]))
        return f"CASE WHEN ({condition}) THEN {value} END"

    def _number_of(
        self, text: str, *, scale: int | None = None, least: bool = False, greatest: bool = False
    ) -> int:
        known = self.kept.get(text, KeptText(text=text))
        if known.scale is not None and scale is not None and known.scale != scale:
            raise UnsplitGroupError
        self.kept[text] = replace(
            known,
            scale=known.scale if scale is None else scale,
            least=known.least or least,
            greatest=known.greatest or greatest,
        )
        return list(self.kept).index(text)

    # Pieces

    def _name(self, output: SelectItem) -> str:
        name = output.aliases[0] if output.aliases else output_name(output.value)
        if not name or name.startswith("__odf_"):
            raise UnsplitGroupError
        return name

    def _of(self, span: Span) -> str:
        return self.text[slice(*span)]


def _sum(adding: Adding, at: int) -> str:
    """Return a sum in Spark's type; sums that are too large fail, as in Spark."""
    kind = "BIGINT"
    if adding.scale is not None:
        kind = f"DECIMAL({min(adding.precision + 10, 38)}, {adding.scale})"
    return f"IF(`__odf_c{at}` = 0, NULL, CAST(`__odf_s{at}` AS {kind}))"


def _average(adding: Adding, at: int) -> str:
    """Return an average as Spark rounds it, to four digits more than the values have.

    With few digits Spark uses doubles.  Otherwise it rounds half up, which is decided by the
    remainder of the sum divided by the number of values.
    """
    assert adding.scale is not None  # noqa: S101 - averages of integers add up doubles
    precision, scale = adding.precision, adding.scale + 4
    kind = f"DECIMAL({precision + 4}, {scale})"
    count = f"CAST(`__odf_c{at}` AS DECIMAL(12, 0))"
    if precision + 4 <= _DOUBLES:
        units = f"`__odf_s{at}` AS DECIMAL({precision + 10}, {adding.scale})"
        units = f"CAST(CAST({units}) * 1{'0' * adding.scale}BD AS DOUBLE)"
        value = f"CAST({units} / CAST({count} AS DOUBLE) / 1E{adding.scale}D AS {kind})"
    else:
        units = f"CAST(`__odf_s{at}` AS DECIMAL({precision + 14}, {scale}))"
        unit = f"0.{'0' * (scale - 1)}1BD"
        part = f"({count} * {unit})"
        rest = f"({units} % {part})"
        more = f"IF(abs({rest}) * 2 >= {part}, IF({rest} < 0, -{unit}, {unit}), 0BD)"
        value = f"CAST(CAST(({units} - {rest}) / {count} AS {kind}) + {more} AS {kind})"
    return f"IF(`__odf_c{at}` = 0, NULL, {value})"


def _is_named(expr: Expr, names: Collection[str]) -> bool:
    return isinstance(expr, Column) and expr.parts[0] in names


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _is_place(key: Expr) -> bool:
    """Return whether a key is a number, which is the position of an output."""
    if isinstance(key, Operation) and key.op == "neg":
        return _is_place(key.args[0])
    return isinstance(key, Literal) and key.kind == "integer"
