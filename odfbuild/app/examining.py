"""Examine the queries of many new datasets, on two processors if they are many different ones."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.make import op_columns
from odfbuild.planner.queries import Examined, Question, question
from odfbuild.planner.sql.alike import are_alike, examine_alike
from odfbuild.planner.sql.query import QueryFacts
from odfbuild.project.halves import in_halves

__all__ = ["examined"]

_MANY = 200  # queries, from which on a second process helps


def examined(declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]) -> Examined:
    """Return the facts of the transforms of new datasets, if there are many; else of none."""
    asked = list(dict.fromkeys(_new(declared, current)))
    if len(asked) < _MANY or are_alike([steps for steps, _ in asked[:_MANY]]):
        return {}
    parts = in_halves(asked, partial(_examine, op_columns(current)), least=_MANY)
    answers = [facts for part in parts for facts in part]
    return dict(zip(asked, answers, strict=True))


def _new(
    declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> Iterator[Question]:
    for each in declared:
        if each.alias not in current:
            yield from (question(e) for e in each.snapshot.metadata if isinstance(e, SetTransform))


def _examine(names: frozenset[str], asked: Sequence[Question]) -> list[QueryFacts]:
    return [examine_alike(steps, aliases, names) for steps, aliases in asked]
