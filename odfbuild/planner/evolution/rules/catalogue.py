"""The catalogue of numbered rules by which changes are judged.  Pure.

ODF1xx are about definitions, ODF2xx about schemas, ODF3xx about queries, ODF4xx about the policy
itself.  A code keeps its meaning for good.
"""

from collections.abc import Mapping
from functools import cache

from odfbuild.planner.evolution.rules.rule import Rule
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.plan.policy import Severity


@cache
def catalogue() -> Mapping[str, Rule]:
    """Return every rule by its code, in the order of the codes."""
    from odfbuild.planner.evolution.rules import definitions, policy, queries, schemas, upstream

    families = (definitions, schemas, queries, upstream, policy)
    rules = (rule for family in families for rule in family.RULES)
    return {each.code: each for each in sorted(rules, key=lambda each: each.code)}


def rule(code: str) -> Rule:
    """Return the rule with a code that is in the catalogue."""
    return catalogue()[code]


def find_rule(text: str) -> Rule | None:
    """Return a rule by its code or its name, in any letter case; None if there is none."""
    wanted = text.strip().lower()
    return next(
        (each for each in catalogue().values() if wanted in (each.code.lower(), each.name)), None
    )


def severity_by_class(change: ChangeClass, breaking: Severity) -> Severity | None:
    """Return how a class is judged as such: those that break readers, as the policy says."""
    return breaking if change in (ChangeClass.BREAKING, ChangeClass.RETIRE) else None
