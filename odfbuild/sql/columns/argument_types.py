"""Type errors of arguments of functions and operators.  Pure.

Only certain errors are reported: an unknown type, and NULL, are accepted everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, permutations

from odfbuild.odf.events import (
    DataType,
    DataTypeDecimal,
    DataTypeList,
    DataTypeMap,
    DataTypeStruct,
)
from odfbuild.sql.argument_types import NAMES, accepted_types, first_misfit, fitting_letters
from odfbuild.sql.columns.constants import BOOLEANS, ConstantFailure
from odfbuild.sql.columns.types import Value
from odfbuild.sql.text import types
from odfbuild.sql.text.readings import is_no_date, is_no_double, is_no_timestamp
from odfbuild.sql.text.shape import Column, Expr, Lambda, Literal, StarExpr, Unknown, walk

_LETTERS = {
    types.BOOLEAN: "b",
    types.BYTE: "y",
    types.SHORT: "s",
    types.INT: "i",
    types.BIGINT: "l",
    types.FLOAT: "f",
    types.DOUBLE: "d",
    types.BINARY: "x",
    types.DATE: "D",
    types.TIMESTAMP: "T",
    types.LOCAL_TIME: "N",
}
_NESTED: dict[type, str] = {
    DataTypeDecimal: "c",
    DataTypeList: "A",
    DataTypeMap: "M",
    DataTypeStruct: "S",
}
_ALIKE = frozenset({"coalesce", "greatest", "least", "array", "case"})
"""Forms of any number of values that have a common type."""
_OPERATORS = frozenset(
    ["+", "-", "*", "/", "%", "div", "&", "|", "^", "||", "<=>", "like", "rlike"]
)
_ORDERED = {"=": "=", "<>": "=", "<": "<", "<=": "<", ">": "<", ">=": "<"}
_WORDS = frozenset(["in", "and", "or", "not", "div", "like", "rlike"])
_UNARY = frozenset(["neg", "~", "not"])
_ITEMS = ("transform", "filter", "exists", "forall", "aggregate", "reduce", "zip_with")
_PARTS = {
    "field": "AMS",
    **dict.fromkeys(_ITEMS, "A"),
    **dict.fromkeys(("transform_keys", "transform_values", "map_filter", "map_zip_with"), "M"),
}
"""The kinds of values that have parts, by the form that reads the parts."""
_LIKE = {"any_value": "min", "substring": "substr", "overlay": "substr"}
"""Functions with the types of other ones; `overlay` without its replacement."""
_VARIANTS = frozenset(["is_variant_null", "variant_get", "try_variant_get", "schema_of_variant"])
_VARIANTS |= {"schema_of_variant_agg"}
"""Functions that accept only VARIANT."""
_TOGETHER = _ALIKE | {"ifnull", "nvl", "nullif", "equal_null"}
"""Forms whose values are converted to one type, in any order."""
_UNCONVERTED = frozenset(["format_number", "to_unix_timestamp", "unix_timestamp"])
_UNCONVERTED |= {"=", "<", "<=>", "in"}
"""Functions whose texts have formats or are formats, and comparisons: see `constants`."""
_SENTENCES = {
    "field": "a part of a value, value.name",
    "case": "the values of a CASE",
    "condition": "a condition",
    "element": "a part of a value, value[...]",
    "neg": "the operator -",
}


def mismatch(name: str, exprs: Sequence[Expr], values: Sequence[Value]) -> ConstantFailure | None:
    """Return why a call or an operator does not accept its arguments; None if it may."""
    if any(isinstance(e, StarExpr | Lambda | Unknown) for e in exprs):
        return None
    if name == "overlay":
        exprs, values = [*exprs[:1], *exprs[2:]], [*values[:1], *values[2:]]
    letters = [_letter(*each) for each in zip(exprs, values, strict=True)]
    if name in _VARIANTS and letters and letters[0] is not None:
        what = f"{name}() cannot be of {NAMES[letters[0]]}"
        return ConstantFailure(what, "give it a VARIANT, such as parse_json(a text)", typed=True)
    if name in _PARTS and letters and letters[0] not in {None, *_PARTS[name]}:
        kinds = " or ".join(NAMES[each] for each in _PARTS[name])
        what = f"{_sentence(name)} cannot be of {NAMES[letters[0] or 'q']}"
        return ConstantFailure(what, f"give it {kinds}", typed=True)
    if name in _ALIKE and len(letters) > 2:
        found = (pair for pair in combinations(letters, 2) if first_misfit(name, pair) is not None)
        letters = list(next(found, (None, None)))
    like = _LIKE.get(name, name)
    at = first_misfit(like, letters)
    if at is None:
        return _wrong_text(name, like, exprs, letters)
    given = " and ".join(NAMES[each] for each in letters if each is not None)
    fitting = " or ".join(accepted_types(like, letters, at))
    beside = f" beside {NAMES[before]}" if at and (before := letters[at - 1]) is not None else ""
    return ConstantFailure(
        f"{_sentence(name)} cannot be of {given}",
        f"give it {fitting}{beside}, with CAST(... AS ...) if need be" if fitting else "cast it",
        typed=True,
    )


def _wrong_text(
    name: str, like: str, exprs: Sequence[Expr], letters: Sequence[str | None]
) -> ConstantFailure | None:
    """Return the failure of a constant text that the engine cannot convert."""
    if like.startswith(("cast:", "try_")) or like in _UNCONVERTED:
        return None
    orders: Iterable[Sequence[int]] = [range(len(letters))]
    if like in _TOGETHER:
        orders = permutations(range(len(letters)), 2)
    for order in orders if "q" in letters else ():
        kinds = fitting_letters(like, [letters[at] for at in order])
        for at, of in zip(order, kinds, strict=bool(kinds)):
            found = _misread(exprs[at], of)
            if found is not None:
                others = ", or cast the other values to STRING" if like in _TOGETHER else ""
                return ConstantFailure(f"{found} in {_sentence(name)}", f"correct the text{others}")
    return None


def _misread(expr: Expr, kinds: frozenset[str]) -> str | None:
    """Return the problem of a constant text that is not a value of the types around it."""
    wanted = kinds - {"t", "q"}
    if not isinstance(expr, Literal) or expr.kind != "string" or "q" not in kinds or not wanted:
        return None
    for kind, of, is_none in _READ_AS:
        if wanted <= of and is_none(expr.text):
            return f"'{expr.text}' is not a valid {kind}"
    return None


def _is_no_boolean(text: str) -> bool:
    return text.strip().lower() not in BOOLEANS


def _is_no_day(text: str) -> bool:
    return is_no_date(text) and is_no_timestamp(text)


_READ_AS: tuple[tuple[str, frozenset[str], Callable[[str], bool]], ...] = (
    ("BOOLEAN", frozenset("b"), _is_no_boolean),
    ("number", frozenset("ysilfdc"), is_no_double),
    ("DATE", frozenset("DTN"), _is_no_day),
)
"""What a constant text is converted to, next to which types, and the test of a failure."""


def _sentence(name: str) -> str:
    if name.startswith("cast:"):
        return f"a cast to {NAMES[name[-1]]}"
    plain = name.replace("_", "").isalnum() and name not in _WORDS
    return _SENTENCES.get(name) or (f"{name}()" if plain else f"the operator {name}")


def _letter(expr: Expr, value: Value) -> str | None:
    """Return the letter of a type; None if it is not known, or a text that may be a constant."""
    kind = value.kind
    if kind == types.STRING:
        if isinstance(expr, Literal):
            return "q"
        return "t" if any(isinstance(each, Column) for each in walk(expr)) else None
    if kind is None or isinstance(kind, types.Interval):
        return None
    return _LETTERS.get(kind) or _NESTED.get(type(kind))


def cast_to(kind: DataType | None) -> str:
    """Return the name in the table of a cast to a type."""
    letter = None if kind is None else _letter(Literal("", ""), Value(kind))
    return f"cast:{'t' if letter == 'q' else letter}"


def compared(op: str, count: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the operators of the table for an operator, with the numbers of their operands."""
    if op in _UNARY and count == 1:
        yield op, (0,)
    elif op in _OPERATORS and count == 2:
        yield op, (0, 1)
    elif op in _ORDERED and count == 2:
        yield _ORDERED[op], (0, 1)
    elif op == "between" and count == 3:
        yield from (("<", (0, 1)), ("<", (0, 2)))
    elif op == "in":
        yield from (("in", (0, other)) for other in range(1, count))
    elif op in {"and", "or"} and count > 1:
        yield op, (0, 1)
        yield from (("not", (other,)) for other in range(2, count))
