"""The commands of the command line: apply, and what else makes or rechecks data.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Busy, OnBusy, ProjectCommand
from odfbuild.cli.declarations.look import Selection
from odfbuild.cli.declarations.plan import Allow, Exclude, Gate, MetadataOnly

commands = typer.Typer()


class AppliedAs(StrEnum):
    """How `apply` and `run` tell what they do."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"


APPLIED_AS = "How it is told what is done: in words, as one document, or as events, a line each."


class VerifiedAs(StrEnum):
    """How `verify` tells what it found."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"
    JUNIT = "junit"


FailFast = Annotated[
    bool,
    typer.Option(
        "--fail-fast/--keep-going",
        help="Begin nothing more once a step failed, or go on with what does not depend on it.",
    ),
]
RunReport = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FMT=FILE",
        help="Write to a file, too: json, what -o json prints; openlineage, the events of the run "
        "as OpenLineage has them, a line each. May be repeated.",
    ),
]
Pool = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        metavar="NAME=N",
        help="Let N steps at a time use a pool: a tag of datasets, or `default` for those without "
        "one; may be repeated, and goes before `pools:` of odfbuild.yaml.",
    ),
]


@commands.command(cls=ProjectCommand)
def apply(
    context: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE | SEL...]",
            help="A plan that `plan --out FILE` saved; or datasets, by name or selector.",
        ),
    ] = None,
    exclude: Exclude = None,
    gate: Gate = "default",
    allow: Allow = None,
    metadata_only: MetadataOnly = False,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", envvar="ODFBUILD_YES", help="Do not ask.")
    ] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Steps at a time.")] = 4,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Plain lines only.")] = False,
    output: Annotated[AppliedAs, typer.Option("-o", "--output", help=APPLIED_AS)] = AppliedAs.TEXT,
    report: RunReport = None,
    lock_timeout: Annotated[
        float,
        typer.Option(
            "--lock-timeout",
            envvar="ODFBUILD_LOCK_TIMEOUT",
            min=0,
            help="Seconds to wait for a dataset that another process is changing.",
        ),
    ] = 10.0,
    on_busy: Busy = OnBusy.WAIT,
    fail_fast: FailFast = False,
    pool: Pool = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Do what is left of the plan of a run that failed or was killed; see `runs`.",
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Of a saved plan, or of a run, do what still fits where datasets moved since.",
        ),
    ] = False,
) -> None:
    """Plan, ask, and do what was planned; or carry out exactly a saved plan."""
    from odfbuild.cli.arguments.scope import Scope
    from odfbuild.cli.commands.apply.apply import ApplyOptions, apply_project, run_reports
    from odfbuild.cli.saved import saved_file

    given_what = tuple(what or ())
    file = saved_file(given_what)
    scope = Scope(
        select=() if file is not None else given_what,
        exclude=tuple(exclude or ()),
        gate=gate,
        allow=tuple(allow or ()),
        metadata_only=metadata_only,
    )
    if file is not None and not scope.is_plain:
        raise typer.BadParameter("a saved plan is carried out as it is, with no other options")
    if resume is not None and (file is not None or not scope.is_plain):
        raise typer.BadParameter("--resume does what is left of one run, with no other options")
    if partial and file is None and resume is None:
        raise typer.BadParameter("--partial goes with a saved plan, or with --resume")
    options = ApplyOptions(
        file=file,
        scope=scope,
        yes=yes,
        jobs=jobs,
        progress=not no_progress,
        lock_timeout=lock_timeout,
        output=output.value,
        reports=run_reports(report or ()),
        resume=resume,
        partial=partial,
        fail_fast=fail_fast,
        pools=tuple(pool or ()),
        on_busy=on_busy,
    )
    raise Exit(apply_project(given(context), options))


@commands.command(cls=ProjectCommand)
def verify(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Run every step of derivatives again, and compare offsets, watermark and rows. "
            "What was ingested is not fetched again: sources do not keep what they once had.",
        ),
    ] = False,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute",
            help="Run the query of every derivative once over all rows that it has read, and "
            "compare that with the rows that stand.",
        ),
    ] = False,
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive",
            help="Verify all that they are made of, too; each input has to be in the workspace.",
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="BLOCK|TIME",
            help="Only the data of later blocks: than a block of the one dataset, or a system time "
            "such as 2024-03-01T12:00:00Z, 2024-03-01 or -1d.",
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", metavar="HASH", help="The block that the one dataset has to end with."
        ),
    ] = None,
    accept_head: Annotated[
        bool,
        typer.Option(
            "--accept-head",
            help="Take the heads as they are, where somebody else set a chain back or rewrote it, "
            "and remember them from now on.",
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", min=1, help="Datasets and steps at a time.")
    ] = 4,
    output: Annotated[
        VerifiedAs, typer.Option("-o", "--output", help="How it is told what was found.")
    ] = VerifiedAs.TEXT,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report", metavar="FMT=FILE", help="Write junit or json to a file, too; repeatable."
        ),
    ] = None,
) -> None:
    """Rehash every block and data file, and recheck links, rules, rows and what was read."""
    from odfbuild.cli.commands.check.verify import VerifyOptions, verify_selected

    options = VerifyOptions(
        replay=replay,
        recompute=recompute,
        recursive=recursive,
        since=since,
        head=head,
        accept_head=accept_head,
        jobs=jobs,
        output=output.value,
        reports=tuple(report or ()),
    )
    raise Exit(verify_selected(given(context), selection or [], exclude or [], options))
