"""What is wrong with definitions, or doubtful in them, as far as their texts tell."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from odfbuild.app.examining import examined
from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.odf.events import SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import Change
from odfbuild.planner.queries import Examined, check_queries, question
from odfbuild.planner.sql.alike import examine_alike
from odfbuild.planner.sql.query import Reason
from odfbuild.project.config import Config

__all__ = [
    "broken_datasets",
    "examine_all",
    "query_findings",
    "settings_findings",
    "unused_inputs",
]


def examine_all(declared: Sequence[Declared]) -> Examined:
    """Return what the texts of all transforms say; many are looked at on two processors."""
    facts = dict(examined(declared, {}))
    for each in declared:
        for event in each.snapshot.metadata:
            if isinstance(event, SetTransform) and question(event) not in facts:
                facts[question(event)] = examine_alike(*question(event))
    return facts


def query_findings(
    declared: Sequence[Declared], facts: Examined
) -> Mapping[DatasetAlias, tuple[Diagnostic, ...]]:
    """Return what is wrong with the queries of each dataset; those that are right are left out."""
    found: dict[DatasetAlias, tuple[Diagnostic, ...]] = {}
    for each in declared:
        changes = [Change(event, at) for at, event in enumerate(each.snapshot.metadata)]
        problems = tuple(check_queries(each, changes, (), facts))
        if problems:
            found[each.alias] = problems
    return found


def broken_datasets(
    found: Mapping[DatasetAlias, Sequence[Diagnostic]],
) -> frozenset[DatasetAlias]:
    """Return the datasets whose queries no engine could make anything of."""
    return frozenset(alias for alias, each in found.items() if each)


def unused_inputs(each: Declared, facts: Examined) -> Iterator[Diagnostic]:
    """Yield a warning for each declared input that the query does not read.

    A query that reads what is no input, or cannot be read, may have meant it.
    """
    for at, event in enumerate(each.snapshot.metadata):
        if not isinstance(event, SetTransform):
            continue
        read = facts[question(event)]
        if read.about(Reason.SYNTAX, Reason.UNKNOWN_INPUT):
            continue
        for number, alias in enumerate(question(event)[1]):
            if alias not in read.inputs:
                yield _unused(each, alias, ("metadata", at, "inputs", number))


def settings_findings(config: Config, declared: Collection[DatasetAlias]) -> Iterator[Diagnostic]:
    """Yield a warning for each entry of the project file that is about a dataset that is not there.

    An entry of `moved` may stay for those who have not applied it, its new name has to be there.
    """
    for accepted in config.accepted:
        if accepted.dataset not in declared:
            yield _idle("acceptance", str(accepted.dataset), accepted.span)
    for moved in config.moved:
        if moved.new not in declared:
            yield _idle("move", str(moved.new), moved.span)
        elif moved.old in declared:
            yield _warning(
                "moved-and-declared",
                f"'{moved.old}' is moved to '{moved.new}' and still declared",
                "its chain goes on under the new name, and the old one would start anew",
                "remove the definition, or the entry",
                moved.span,
            )


def _unused(each: Declared, alias: str, path: tuple[str | int, ...]) -> Diagnostic:
    return _warning(
        "unused-input",
        f"the query does not read its input '{alias}'",
        "each step waits for every input, and its watermark is the least of all",
        "remove the input, or read it",
        each.span(path),
    )


def _idle(kind: str, dataset: str, span: SourceSpan) -> Diagnostic:
    return _warning(
        f"idle-{kind}",
        f"no dataset '{dataset}' is declared",
        f"an {kind} that is about nothing" if kind == "acceptance" else "nothing can move to it",
        "remove the entry, or correct the name",
        span,
    )


def _warning(code: str, what: str, why: str, fix: str, span: SourceSpan) -> Diagnostic:
    return Diagnostic(code=code, what=what, why=why, fix=fix, span=span, level=Level.WARNING)
