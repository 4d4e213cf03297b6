"""odfbuild verify: recheck datasets, run their steps again, and say what does not hold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import time_ns
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from odfbuild.app.inspection.moment import moment
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import PlanExclude, Reports, Selection
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.terminal.console import hint
from odfbuild.errors import UsageRefusedError
from odfbuild.odf.identity import DatasetId, InvalidMultihashError, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.executors.engine.contract.job.steps import Placement
    from odfbuild.executors.verify.run import Checked, Since
    from odfbuild.project.load import Project

_REPORTS = {"junit": "a test case for each dataset", "json": "what -o json prints"}
_MEANING = "it is the system time, or a block, after which data is verified"


def verify(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: PlanExclude = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Rerun every step of derivatives, and compare offsets, watermark and rows. "
            "Sources are not fetched again, as they may have changed.",
        ),
    ] = False,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute",
            help="Run the query of every derivative once over all rows that it has read, and "
            "compare the result with its current rows.",
        ),
    ] = False,
    placed: Annotated[
        bool,
        typer.Option(
            "--placed",
            help="With --replay or --recompute: run steps where apply would, by `steps` of "
            "`engines` in odfbuild.yaml. Their rows are then trusted to those machines, too.",
        ),
    ] = False,
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive",
            help="Also verify all datasets that they are made of; each input must be in the "
            "workspace.",
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="BLOCK|TIME",
            help="Only verify the data of blocks after a block (of a single dataset), or after a "
            "system time such as 2024-03-01T12:00:00Z, 2024-03-01 or -1d.",
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", metavar="HASH", help="The expected head, if a single dataset is verified."
        ),
    ] = None,
    accept_head: Annotated[
        bool,
        typer.Option(
            "--accept-head",
            help="Accept the present heads, even if somebody else reset or rewrote a chain, and "
            "remember them.",
        ),
    ] = False,
    signatures: Annotated[
        bool,
        typer.Option(
            "--signatures",
            help="Require signed heads: by the dataset's key, one it delegates to, or a witness "
            "of a repository. Earlier signatures must hold, too.",
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", min=1, help="Number of datasets and steps at a time.")
    ] = 4,
    output: Annotated[
        Literal["text", "json", "ndjson", "junit"],
        typer.Option("-o", "--output", help="Format of the findings."),
    ] = "text",
    report: Reports = None,
) -> int:
    """Check that blocks, files and rows are as recorded. Includes hashes, links and rules."""
    from odfbuild.cli.arguments.selection import chosen_readable
    from odfbuild.cli.files import parse_reports
    from odfbuild.cli.render.kept_jobs import report_kept_jobs
    from odfbuild.cli.unreadable import read_code
    from odfbuild.executors.verify.run import Verification, verify_datasets

    if placed and not (replay or recompute):
        raise typer.BadParameter("--placed needs --replay or --recompute")
    reports = parse_reports(report or (), _REPORTS)
    project = open_given(given)
    project.workspace.read_anew()
    known = project.workspace.names()
    found_names, loaded = chosen_readable(project, selection or (), exclude or ())
    chosen = sorted(found_names)
    asked = Verification(
        replay=replay,
        recompute=recompute,
        recursive=recursive,
        since=_since(project, [known[name] for name in chosen], since),
        jobs=jobs,
        head=_pinned_head(chosen, head, recursive=recursive),
        accept_head=accept_head,
        signatures=signatures,
        placement=_placement(project, loaded) if placed else None,
    )
    shown = known if recursive else chosen
    names = {known[name]: name for name in shown}
    ids = [known[name] for name in chosen]
    verified = verify_datasets(project, ids, asked, say=lambda text: hint(f"{text}\n"))
    found = _without_gone(verified, names)
    every = list(_WRITERS[output](found, _VerifyRequest(project, names, len(chosen))))
    report_kept_jobs()
    if (problem := project.workspace.seen.problem) is not None:
        hint(f"the seen heads are not recorded: {problem}\n")
    for format, text in (("json", _json_text), ("junit", _junit_text)):
        if reports.wants(format):
            reports.write(format, text(every, names))
    whole = selection or exclude or not project.workspace.damage()
    holds = whole and all(each.passed for each in every)
    return read_code(loaded) if holds else exits.NOT_VERIFIED


def _placement(project: app.Opened, loaded: Project | None) -> Placement | None:
    from odfbuild.app.plan.step_placement import step_placement

    return step_placement(project, None if loaded is None else loaded.declared)


def _without_gone(found: Iterator[Checked], names: Names) -> Iterator[Checked]:
    """Yield the datasets that are still there; say which are not."""
    for each in found:
        if each.is_gone:
            hint(f"{_name_of(each, names)} was removed while datasets were verified\n")
        else:
            yield each


def _pinned_head(
    chosen: Sequence[DatasetAlias], text: str | None, *, recursive: bool
) -> Multihash | None:
    """Read the block that the one dataset has to end with."""
    if text is None:
        return None
    if len(chosen) != 1 or recursive:
        raise UsageRefusedError(
            what=f"--head {text}: {len(chosen)} datasets are to be verified",
            why="a block is the head of one dataset",
            fix="name the dataset, and verify its inputs in a separate command",
        )
    try:
        return Multihash.parse(text)
    except InvalidMultihashError as error:
        raise UsageRefusedError(
            what=f"--head {text}: {error.what}",
            why="only a full hash identifies a block among all others",
            fix="give it as odfbuild log -o json shows it: f1620 and 64 digits",
        ) from None


def _since(project: app.Opened, chosen: Sequence[DatasetId], text: str | None) -> Since | None:
    """Read a system time, or else a block of the one dataset that is verified."""
    from odfbuild.executors.verify.run import Since

    if text is None:
        return None
    try:
        now = Timestamp.from_millis(time_ns() // 1_000_000)
        return Since(moment(text, now, why=_MEANING))
    except UsageRefusedError as error:
        if len(chosen) != 1:
            raise UsageRefusedError(
                what=f"--since {text}: not a time",
                why=f"a block belongs to one dataset, and {len(chosen)} are to be verified",
                fix=error.fix,
            ) from None
    from odfbuild.state.chain.refs import find_block

    dataset = project.workspace.dataset(chosen[0])
    block = dataset.block(find_block(dataset, text))
    return Since(block.system_time, dataset.id, block.sequence_number)


Names = Mapping[DatasetId, DatasetAlias]


@dataclass(frozen=True, slots=True)
class _VerifyRequest:
    """What is verified, and how its datasets are called; most of them will be looked at."""

    project: app.Opened
    names: Names
    datasets: int


def _text(found: Iterator[Checked], asked: _VerifyRequest) -> Iterator[Checked]:
    """Print a line for each dataset as it is done, and what does not hold of it."""
    from odfbuild.cli.formats.replay import checked_lines

    width = max((len(str(name)) for name in asked.names.values()), default=0)
    count = failed = 0
    for each in found:
        count, failed = count + 1, failed + (not each.passed)
        name = _name_of(each, asked.names)
        sys.stdout.write("".join(f"{line}\n" for line in checked_lines(name, width, each)))
        sys.stdout.flush()
        yield each
    word = "dataset" if count == 1 else "datasets"
    sys.stdout.write(f"{count} {word} verified, {failed} failed.\n")


def _json(found: Iterator[Checked], asked: _VerifyRequest) -> Iterator[Checked]:
    yield from (every := list(found))
    sys.stdout.write(_json_text(every, asked.names))


def _junit(found: Iterator[Checked], asked: _VerifyRequest) -> Iterator[Checked]:
    yield from (every := list(found))
    sys.stdout.write(_junit_text(every, asked.names))


def _ndjson(found: Iterator[Checked], asked: _VerifyRequest) -> Iterator[Checked]:
    """Print an event for each dataset as it is done."""
    from odfbuild.cli.formats.replay import checked_json
    from odfbuild.cli.terminal.events import printed_events

    with printed_events(asked.project, "verify", asked.datasets) as (events, counts):
        for each in found:
            outcome = "passed" if each.passed else "failed"
            name = _name_of(each, asked.names)
            told = {k: v for k, v in checked_json(name, each).items() if k not in ("name", "ok")}
            level = "info" if each.passed else "error"
            events.add("check_result", name, level, outcome=outcome, **told)
            counts[outcome] += 1
            yield each


def _json_text(every: Sequence[Checked], names: Names) -> str:
    from odfbuild.cli.formats.replay import checked_json, json_text
    from odfbuild.cli.terminal.console import printable_json

    document = {
        "format_version": "1.0",
        "datasets": [checked_json(_name_of(each, names), each) for each in every],
        "failed": sum(not each.passed for each in every),
    }
    return printable_json(json_text(document)) + "\n"


def _junit_text(every: Sequence[Checked], names: Names) -> str:
    from odfbuild.cli.formats.junit import render_findings
    from odfbuild.cli.formats.replay import junit_findings

    failed = [
        finding for each in every for finding in junit_findings(names.get(each.dataset), each)
    ]
    clean = [_name_of(each, names) for each in every if each.passed]
    return render_findings("odfbuild verify", failed, clean, passing="verify")


def _name_of(checked: Checked, names: Names) -> str:
    """Return the name of a dataset; one that has none is called by its id."""
    return str(names.get(checked.dataset, checked.dataset))


_WRITERS: Final[Mapping[str, Callable[[Iterator[Checked], _VerifyRequest], Iterator[Checked]]]] = {
    "text": _text,
    "json": _json,
    "ndjson": _ndjson,
    "junit": _junit,
}
