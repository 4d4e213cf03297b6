"""The catalogue of rules as text: one rule for a terminal, all of them as a page of docs.  Pure."""

from textwrap import fill, indent

from odfbuild.planner.evolution.rules.catalogue import catalogue
from odfbuild.planner.evolution.rules.rule import Rule
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.plan.policy import Severity

_WIDTH = 88
_GROUPS = {
    "ODF1": "Definitions",
    "ODF2": "Schema evolution",
    "ODF3": "Query evolution",
    "ODF4": "Policy",
}
_INTRO = """# Rules

Every change of a plan is checked against these rules. `odfbuild help ODF201` prints one.

The class of a change is the last one, in this order, that any rule gives it: `metadata`,
`data-only`, `additive`, `restating` (same columns, other values from now on), `breaking`, `retire`.
Unknown counts as breaking. While a dataset has no rows yet, its columns, keys and merge may change
freely. How a finding is judged is set in odfbuild.yaml:

```yaml
gates: {breaking: error, ODF204: warn, max_restated_rows: 10000000}   # error | warn | off
accept: [{code: ODF201, dataset: org.example.a, column: fee, until: 2026-12-31, reason: unused}]
```

A rule's own entry overrides `breaking`, which overrides the default below. An acceptance is
about one rule, one dataset and one column (none where the rule is about the whole dataset), until
the end of a day. `--gate strict` also refuses warnings, and requires a reason for every acceptance;
`--gate off` refuses nothing; `--allow CODE:SEL` accepts for one run.
"""


def rule_text(rule: Rule) -> str:
    """Return what `odfbuild help` says of a rule."""
    parts = [
        f"{rule.code} {rule.name}: {rule.title}",
        f"class {rule.change.value}, by default {_default(rule)}",
        fill(rule.explanation, _WIDTH),
        "Before:\n" + indent(rule.before, "  "),
        "After:\n" + indent(rule.after, "  "),
        "Options:\n" + "\n".join(f"  - {_way(way)}" for way in rule.ways),
    ]
    return "\n\n".join(parts) + "\n"


def rule_list() -> str:
    """Return a line for each rule."""
    rules = catalogue().values()
    width = max(len(each.name) for each in rules)
    return "".join(f"{each.code}  {each.name:<{width}}  {each.title}\n" for each in rules)


def rules_page() -> str:
    """Return docs/rules.md."""
    parts = [_INTRO]
    for prefix, title in _GROUPS.items():
        rules = [each for code, each in catalogue().items() if code.startswith(prefix)]
        parts.append(f"## {prefix}xx: {title}\n")
        parts.append(_table(rules))
        parts += [_section(each) for each in rules]
    return "\n".join(parts)


def _table(rules: list[Rule]) -> str:
    rows = "".join(
        f"| [{each.code}](#{each.code.lower()}-{each.name}) | {each.title} "
        f"| {each.change.value} | {_default(each)} |\n"
        for each in rules
    )
    return f"| rule | what | class | default |\n|---|---|---|---|\n{rows}"


def _section(rule: Rule) -> str:
    ways = "\n".join(f"- {_way(way)}" for way in rule.ways)
    return (
        f"### {rule.code} {rule.name}\n\n{fill(rule.explanation, 100)}\n\n"
        f"```yaml\n# before\n{rule.before}\n# after\n{rule.after}\n```\n\nWhat to do:\n\n{ways}\n"
    )


def _default(rule: Rule) -> str:
    if rule.change in (ChangeClass.BREAKING, ChangeClass.RETIRE):
        return "by `gates.breaking`"
    return {Severity.ERROR: "error", Severity.WARN: "warning", Severity.OFF: "only reported"}[
        rule.severity
    ]


def _way(way: str) -> str:
    return way.format(dataset="DATASET", column="COLUMN", other="OTHER")
