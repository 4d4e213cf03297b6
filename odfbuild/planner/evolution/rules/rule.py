"""One rule: its subject, its default verdict, its options, and its hits in words.  Pure."""

from collections.abc import Sequence

from odfbuild.errors import SourceSpan
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.changes import ChangeClass, Hit, Judgement
from odfbuild.planner.plan.policy import Severity
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule with its worked example.

    `severity` is the default where the class alone does not decide (`gates.breaking` does that for
    breaking and retire).  `ways` may name `{dataset}`, `{column}` and `{other}`.
    """

    code: str
    name: str
    title: str
    change: ChangeClass
    severity: Severity
    explanation: str
    before: str
    after: str
    ways: tuple[str, ...]


def hit(
    rule: Rule,
    dataset: DatasetAlias,
    message: str,
    *,
    why: str | None = None,
    column: str | None = None,
    other: object = None,
    span: SourceSpan | None = None,
    severity: Severity | None = None,
) -> Hit:
    """Return a hit that no gate has judged yet.

    `why` is the rule's explanation unless there is more to say; `other` the other name that the
    rule's ways forward speak of; `severity` another one than the rule's own.
    """
    names = {"dataset": dataset, "column": column, "other": other}
    return Hit(
        code=rule.code,
        name=rule.name,
        dataset=dataset,
        column=column,
        change=rule.change,
        severity=rule.severity if severity is None else severity,
        judged=Judgement.PASSED,
        message=message,
        why=rule.explanation if why is None else why,
        ways=(*(way.format_map(names) for way in rule.ways), *_accept(rule, dataset, column)),
        span=span,
    )


def class_of(hits: Sequence[Hit], least: ChangeClass = ChangeClass.NONE) -> ChangeClass:
    """Return the class that reaches farthest."""
    return max([least, *(each.change for each in hits)], key=lambda each: each.rank)


def _accept(rule: Rule, dataset: DatasetAlias, column: str | None) -> tuple[str, ...]:
    if rule.severity is Severity.OFF or rule.code.startswith("ODF4"):
        return ()
    part = "" if column is None else f" --column {column}"
    return (f"odfbuild accept {rule.code} {dataset}{part} --until DATE",)
