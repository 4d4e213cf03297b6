"""Examine many queries that differ in numbers and strings only by examining one of them.

Datasets that one template makes have such queries, and reading a query takes most of the time of a
first plan.  What a query says depends on its words; where something is wrong with it, its places
are needed, so those are examined each for itself.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from odfbuild.planner.sql.query import QueryFacts, QueryStep, examine
from odfbuild.planner.sql.text import skeleton

__all__ = ["are_alike", "examine_alike"]

_MOST = 4_096

_KNOWN: dict[object, QueryFacts] = {}


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
