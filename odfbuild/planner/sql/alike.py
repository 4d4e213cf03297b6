"""Examine many queries that differ in numbers and strings only by examining one of them.

Datasets that one template makes have such queries, and reading a query takes most of the time of a
first plan.  What a query says depends on its words; where something is wrong with it, its places
are needed, so those are examined each for itself.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.odf.datatypes import inner
from odfbuild.odf.events import DataSchema, DataTypeList, DataTypeMap, DataTypeStruct
from odfbuild.planner.sql.query import QueryFacts, QueryStep, examine
from odfbuild.planner.sql.text import skeleton

if TYPE_CHECKING:
    from odfbuild.planner.sql.columns import QueryColumns

__all__ = ["are_alike", "columns_alike", "examine_alike"]

_MOST = 4_096

_KNOWN: dict[object, QueryFacts] = {}
_COLUMNS: "dict[object, QueryColumns]" = {}
_TYPED = re.compile(r"\d{10,}|\d*\.\d*|\d+[A-Za-z]+")  # numbers that may not be an INT
_JUDGED = re.compile(
    r"\b(?:regexp\w*|rlike|split\w*|to_date|to_timestamp\w*|\w*unix\w*|date_format|schema_of_\w+|"
    r"element_at|slice|array_insert|p?mod|sequence)\s*\(|\b(?:rlike|regexp)\b|(?:[/%]|\bdiv)\s*0|"
    r"\b(?:cast|int|bigint|smallint|tinyint|double|float|boolean|date|decimal)\s*\(\s*r?['\"]|"
    r"['\"]\s*::",
    re.IGNORECASE,
)  # words of queries whose constants are right or wrong
_NESTED = (DataTypeList, DataTypeMap, DataTypeStruct)


def examine_alike(
    steps: Sequence[QueryStep], inputs: Collection[str], op_columns: Collection[str] = ("op",)
) -> QueryFacts:
    """Return what `examine` returns, from what it said of a query like this one if there was one.

    A column that is called by a number or string of the text keeps a query from standing for
    others.
    """
    words = tuple((step.alias, skeleton(step.text)) for step in steps)
    key = (words, tuple(inputs), frozenset(op_columns))
    known = _KNOWN.get(key)
    if known is not None:
        return replace(known, steps=tuple(steps))
    facts = examine(steps, inputs, op_columns)
    if not facts.findings and _are_named(facts):
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        _KNOWN[key] = facts
    return facts


def columns_alike(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]
) -> "QueryColumns":
    """Return what `columns_of` returns, from what it said of a query like this one if any.

    A query that names a column its inputs do not have stands for no other, so places are right
    wherever something is wrong; nor does one where a string may name a column or its parts.
    """
    from odfbuild.planner.sql.columns import columns_of

    words = tuple(
        (step.alias, _skeleton(step.text), tuple(_TYPED.findall(step.text)), step.temporal)
        for step in steps
    )
    key = (words, tuple(inputs.items()))
    known = _COLUMNS.get(key)
    if known is not None:
        return known
    found = columns_of(steps, inputs)
    wrong = found.unknown_columns or found.unknown_functions or found.wrong_constants
    if not wrong and _are_plain(found, steps[-1].text if steps else ""):
        if len(_COLUMNS) >= _MOST:
            _COLUMNS.clear()
        _COLUMNS[key] = found
    return found


def _skeleton(text: str) -> object:
    """Return the words of a text; all of it where constants are judged."""
    return text if _JUDGED.search(text) else skeleton(text)


def are_alike(queries: Sequence[Sequence[QueryStep]]) -> bool:
    """Tell whether most of some queries are like another one of them."""
    kinds = {tuple(skeleton(step.text) for step in steps) for steps in queries}
    return len(kinds) * 2 < len(queries)


def _are_named(facts: QueryFacts) -> bool:
    """Tell whether every output is called by a word of the text."""
    text = facts.steps[-1].text
    return all(
        name.isidentifier() and f"'{name}'" not in text and f'"{name}"' not in text
        for name in facts.outputs or ()
    )


def _are_plain(found: "QueryColumns", text: str) -> bool:
    """Tell whether all outputs are called by words of the text, and none has parts."""
    return found.outputs is not None and all(
        each.name.isidentifier()
        and f"'{each.name}'" not in text
        and f'"{each.name}"' not in text
        and each.type is not None
        and not isinstance(inner(each.type), _NESTED)
        for each in found.outputs
    )
