"""Output formats of plans and of the problems that prevent one: the registry of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from odfbuild.errors import UsageRefusedError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.errors import Diagnostic
    from odfbuild.planner.plan import Plan


MAX_BYTES = 60_000


class PlanFormat(StrEnum):
    """How a plan is printed."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFormatOptions:
    """What the formats leave open.

    `max_bytes` bounds markdown; `colour`, `explain`, `blocks` (the whole ones) and `every` (each
    dataset that only has new data) are about text;
    `root` is the project's folder, whose place in its repository the annotations need.
    """

    max_bytes: int = MAX_BYTES
    colour: bool = False
    explain: bool = False
    blocks: bool = False
    every: bool = False
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A file that is written beside what is printed."""

    output: PlanFormat
    path: Path


def parse_reports(texts: Sequence[str]) -> tuple[ReportFile, ...]:
    """Read texts of the form FMT=FILE.  Raises UsageRefusedError."""
    return tuple(map(_parse_report, texts))


def plan_output(plan: Plan, output: PlanFormat, settings: PlanFormatOptions) -> str:
    """Return a plan in one of the formats."""
    return _writer(output, settings).plan(plan)


def problems_output(
    found: Sequence[Diagnostic], output: PlanFormat, settings: PlanFormatOptions
) -> str:
    """Return the problems of a project in one of the formats; as text they go elsewhere."""
    return _writer(output, settings).problems(found)


class _Writer(NamedTuple):
    """The two texts of one format."""

    plan: Callable[[Plan], str]
    problems: Callable[[Sequence[Diagnostic]], str]


def _writer(output: PlanFormat, settings: PlanFormatOptions) -> _Writer:
    match output:
        case PlanFormat.TEXT:
            return _Writer(partial(_plan_text, settings), lambda _: "")
        case PlanFormat.JSON:
            return _Writer(_plan_json, _problems_json)
        case PlanFormat.NDJSON:
            from odfbuild.cli.formats import ndjson

            return _Writer(ndjson.render, ndjson.render_diagnostics)
        case PlanFormat.MARKDOWN:
            from odfbuild.cli.formats import markdown

            most = settings.max_bytes
            return _Writer(
                partial(markdown.render, max_bytes=most),
                partial(markdown.render_diagnostics, max_bytes=most),
            )
        case PlanFormat.JUNIT:
            from odfbuild.cli.formats import junit

            return _Writer(junit.render, junit.render_diagnostics)
        case PlanFormat.SARIF:
            from odfbuild.cli.formats import sarif

            prefix = _prefix(settings)
            return _Writer(
                partial(sarif.render, prefix=prefix),
                partial(sarif.render_diagnostics, prefix=prefix),
            )
        case PlanFormat.GITHUB:
            from odfbuild.cli.formats import github

            prefix = _prefix(settings)
            return _Writer(
                partial(github.render, prefix=prefix),
                partial(github.render_diagnostics, prefix=prefix),
            )


def write_reports(reports: Sequence[ReportFile], made: Callable[[PlanFormat], str]) -> None:
    """Write each report to its file; `made` gives the text of a format."""
    if reports:
        from odfbuild.cli.files import write_output

        for each in reports:
            write_output(each.path, made(each.output))


def _parse_report(text: str) -> ReportFile:
    name, equals, path = text.partition("=")
    if not equals or not path or name not in list(PlanFormat):
        raise UsageRefusedError(
            what=f"--report {text}: this is not a format and a file",
            why=f"it has the form FMT=FILE; the formats are {', '.join(PlanFormat)}",
            fix="write, for instance, --report sarif=plan.sarif",
        )
    return ReportFile(PlanFormat(name), Path(path))


def _plan_text(settings: PlanFormatOptions, plan: Plan) -> str:
    from odfbuild.cli.render.plan import blocks_text, plan_text

    text = plan_text(plan, colour=settings.colour, explain=settings.explain, every=settings.every)
    return text + blocks_text(plan) if settings.blocks else text


def _plan_json(plan: Plan) -> str:
    import json

    from odfbuild.cli.terminal.console import printable_json
    from odfbuild.planner.saved import to_json

    return printable_json(json.dumps(to_json(plan), indent=2, ensure_ascii=False)) + "\n"


def _problems_json(found: Sequence[Diagnostic]) -> str:
    import json

    from odfbuild.planner.saved.forms import diagnostic_json

    document = {"diagnostics": [diagnostic_json(each) for each in found]}
    return json.dumps(document, indent=2) + "\n"


def _prefix(settings: PlanFormatOptions) -> str:
    """Return the path from the top of the repository to the project, ended by a slash.

    Empty at the top itself, and where there is no repository that can be read.
    """
    from odfbuild.project.git import GitError, WorkTree

    try:
        return "" if settings.root is None else WorkTree.of(settings.root).prefix
    except GitError:
        return ""
