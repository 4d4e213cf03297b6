"""odfbuild accept: write into the project file that people agreed to one finding of the gate."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.app.load_project import load
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Name
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.commands.author.upgrade import UsageError
from odfbuild.cli.files import editing, replace_file
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import OdfBuildError
from odfbuild.host.files import read_regular
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.evolution.rules.catalogue import catalogue, find_rule
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.project import PROJECT_FILE
from odfbuild.project.config.project_file import parse_config
from odfbuild.project.config.settings import parse_day
from odfbuild.project.yaml import Value, decode
from odfbuild.project.yaml.edit import Add, Change, SetValue, edited_bytes
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.planner.evolution.rules.rule import Rule
    from odfbuild.planner.plan.policy import Acceptance, GateFinding
    from odfbuild.project.load import Project

_DAYS = 90


class UnknownRuleError(OdfBuildError):
    """There is no rule of this code."""

    code = "unknown-rule"


class UnknownFindingDatasetError(OdfBuildError):
    """The project declares no dataset of this name."""

    code = "unknown-dataset"


def accept(
    given: ProjectArguments,
    code: Annotated[str, typer.Argument(help="The rule, such as ODF201.")],
    name: Name,
    column: Annotated[
        str | None,
        typer.Option("--column", metavar="PATH", help="The column, such as address.street."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="DATE", help="The last day. Default: in 90 days."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why it is accepted.")] = None,
) -> int:
    """Accept a finding of the gate. Adds an entry to odfbuild.yaml, to be reviewed in git.

    An acceptance of the same finding that ran out is renewed; one that holds stays as it is unless
    another day or reason is given.
    """
    rule = _rule(code)
    with editing(open_given(given).root):
        _accept(open_given(given), rule, name, column=column, until=until, reason=reason)
    return exits.DONE


@dataclass(frozen=True, slots=True)
class AcceptanceEdit:
    """The changes of the project file that accept a finding until a day; none if it is accepted."""

    changes: tuple[Change, ...]
    until: date


def acceptance_edit(
    project: app.Opened,
    finding: GateFinding,
    *,
    until: date | None = None,
    reason: str | None = None,
) -> AcceptanceEdit:
    """Return how the project file accepts a finding; nothing is changed.

    Without `until`, a new entry holds for 90 days, and one that holds keeps its day.
    """
    known, today = project.config.accepted, project.policy.today
    day = today + timedelta(days=_DAYS) if until is None else until
    at = next((n for n, each in enumerate(known) if _finding(each) == finding), None)
    if at is None:
        return AcceptanceEdit((Add(("accept",), _entry(finding, day, reason)),), day)
    if until is None and known[at].until >= today:
        day = known[at].until
        if reason is None:
            return AcceptanceEdit((), day)
    changes: list[Change] = [SetValue(("accept", at, "until"), str(day))]
    if reason is not None:
        changes.append(SetValue(("accept", at, "reason"), reason))
    return AcceptanceEdit(tuple(changes), day)


def _accept(
    project: app.Opened,
    rule: Rule,
    name: str,
    *,
    column: str | None,
    until: str | None,
    reason: str | None,
) -> None:
    dataset = _dataset(project, load(project), name, rule)
    day = None if until is None else _day(until, project.policy.today)
    edit = acceptance_edit(project, (rule.code, dataset, column), until=day, reason=reason)
    if edit.changes:
        _write(project, edit.changes)
        _say(rule, dataset, column, f"accepted until {edit.until}")
    else:
        _say(rule, dataset, column, f"is accepted already, until {edit.until}")


def _rule(code: str) -> Rule:
    found = find_rule(code)
    if found is None:
        raise UnknownRuleError(
            what=f"there is no rule '{code}'",
            why="findings are accepted by the code of their rule",
            fix=did_you_mean(code.upper(), catalogue()) or "odfbuild help lists all rules",
        )
    return found


def _dataset(project: app.Opened, loaded: Project, name: str, rule: Rule) -> DatasetAlias:
    """Return a declared dataset by its name; one that retires is declared no more."""
    wanted = DatasetAlias.parse(name)
    declared = {each.alias: each.alias for each in loaded.declared}
    if wanted in declared:
        return declared[wanted]
    if rule.change is ChangeClass.RETIRE:
        return next((each for each in project.workspace.names() if each == wanted), wanted)
    raise UnknownFindingDatasetError(
        what=f"the project has no dataset '{name}'",
        why="a finding is accepted for one dataset that is declared",
        fix=did_you_mean(name, map(str, declared)) or "odfbuild list shows the datasets",
    )


def _day(until: str, today: date) -> date:
    day = parse_day(until)
    if day is None or day < today:
        raise UsageError(
            what=f"--until {until} is {'not a date' if day is None else 'in the past'}",
            why="an acceptance is valid until its date, inclusive",
            fix=f"write a date from today on, such as {today + timedelta(days=_DAYS)}",
        )
    return day


def _finding(each: Acceptance) -> GateFinding:
    return each.code, each.dataset, each.column


def _entry(finding: GateFinding, until: date, reason: str | None) -> Value:
    code, dataset, column = finding
    entry: dict[str, Value] = {"code": code, "dataset": str(dataset)}
    if column is not None:
        entry["column"] = column
    entry["until"] = str(until)
    if reason is not None:
        entry["reason"] = reason
    return entry


def _write(project: app.Opened, changes: Sequence[Change]) -> None:
    """Change the project file, if it can be read afterwards."""
    path = project.root / PROJECT_FILE
    data = edited_bytes(read_regular(path), PROJECT_FILE, changes)
    parse_config(decode(data, PROJECT_FILE), default_name=project.config.name)
    replace_file(path, data)


def _say(rule: Rule, dataset: DatasetAlias, column: str | None, what: str) -> None:
    place = f"{dataset}" if column is None else f"{dataset}, column {column},"
    sys.stdout.write(printable(f"{rule.code} ({rule.name}) of {place} {what}.") + "\n")
    sys.stdout.write(f"Have {PROJECT_FILE} reviewed together with the change.\n")
