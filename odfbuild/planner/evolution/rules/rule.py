"""One rule: its subject, its default verdict, and its options."""

from odfbuild.planner.plan.changes import ChangeClass
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
