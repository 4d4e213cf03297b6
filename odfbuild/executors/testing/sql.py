"""Queries in checks: problems of their texts, found without an engine."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.executors.testing.columns import no_dataset
from odfbuild.executors.testing.model import RowCheck, SqlRule
from odfbuild.odf.refs import DatasetAlias
from odfbuild.sql.analysis.facts import diagnostics, examine
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep

_REFUSED: Final = (Reason.SYNTAX, Reason.UNKNOWN_INPUT, Reason.ENVIRONMENT, Reason.FOREIGN_CODE)


def query_problems(check: RowCheck, rule: SqlRule, known: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield the problems of the query of a check; `known` are the names of all datasets."""
    facts = examine((QueryStep(None, rule.text),), (*_used_datasets(rule.text, known), *known), ())
    for each, diagnostic in zip(facts.about(*_REFUSED), diagnostics(facts, _REFUSED), strict=True):
        place = each.place
        span = check.span
        if rule.places is not None:
            span = rule.places.inside(rule.path, rule.text, place.start, place.length)
        what = diagnostic.what.removesuffix(f" (line {place.line}, column {place.column})")
        if each.reason is Reason.UNKNOWN_INPUT and each.hint != each.name:
            yield no_dataset(each.name, span, list(known))
        else:
            yield replace(diagnostic, what=what, span=span)


def _used_datasets(text: str, known: Sequence[str]) -> Iterator[str]:
    """Yield the names of datasets in a query, in its spelling."""
    names = {DatasetAlias.parse(each) for each in known}
    try:
        tables = read(text).tables
    except SqlTextError:
        return
    for each in tables:
        try:
            if DatasetAlias.parse(each.text) in names:
                yield each.text
        except OdfBuildError:
            continue
