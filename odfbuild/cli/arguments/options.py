"""Options and arguments that several commands share, each declared once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from odfbuild.cli.arguments.completion import complete_names
from odfbuild.cli.formats.outputs import PlanFormat
from odfbuild.cli.formats.rows import TABLE_ROWS, RowFormat


class OnBusy(StrEnum):
    """What to do while another run works on the same datasets."""

    WAIT = "wait"
    SKIP = "skip"
    FAIL = "fail"


# datasets

Name = Annotated[str, typer.Argument(help="The name of a dataset.", autocompletion=complete_names)]
Selection = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SEL]...",
        help="Datasets: name, glob*, +up, down+, tag:x, path:dir, state:stale and more. Default: "
        "all.",
        autocompletion=complete_names,
    ),
]
CheckSelection = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SEL]...", help="Datasets. Default: all.", autocompletion=complete_names
    ),
]
ExistingSelection = Annotated[
    list[str],
    typer.Argument(
        metavar="SEL...",
        help="Datasets of the workspace, by name or selector.",
        autocompletion=complete_names,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="SEL", help="Leave out what this selects; may be repeated."),
]
PlanExclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="SEL", help="Leave these out; may be repeated."),
]

# how a command works

Yes = Annotated[
    bool, typer.Option("-y", "--yes", envvar="ODFBUILD_YES", help="Do not ask for confirmation.")
]
Jobs = Annotated[int, typer.Option("-j", "--jobs", min=1, help="Number of steps at a time.")]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Contact no repository: inputs that come from one stay at the local version.",
    ),
]
PlanOffline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Contact neither the repositories of inputs nor the object store of the workspace: "
        "plan from what was last seen of them.",
    ),
]
StoreOffline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Do not contact the object store of the workspace: show what was last seen of it.",
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; exit with 3 if something would change.")
]
LockTimeout = Annotated[
    float,
    typer.Option(
        "--lock-timeout",
        envvar="ODFBUILD_LOCK_TIMEOUT",
        min=0,
        help="Seconds to wait for a dataset that another process is changing.",
    ),
]
Busy = Annotated[
    OnBusy,
    typer.Option(
        "--on-busy",
        envvar="ODFBUILD_ON_BUSY",
        help="If another run works on the same datasets: wait for it, skip them and what depends "
        "on them, or fail.",
    ),
]

# what is printed

TextFormat = Annotated[Literal["text", "json"], typer.Option("-o", "--output")]
TableFormat = Annotated[Literal["table", "json"], typer.Option("-o", "--output")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="With -o csv: put ' before texts that a spreadsheet would take for a formula (=, +, "
        "-, @).",
    ),
]
Reports = Annotated[
    list[str] | None,
    typer.Option(
        "--report", metavar="FMT=FILE", help="Also write junit or json to a file; may be repeated."
    ),
]

# plans

Gate = Annotated[
    str,
    typer.Option(
        "--gate",
        metavar="strict|default|off",
        help="strict also refuses warnings; off refuses nothing.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="CODE[:SEL]",
        help="Accept findings of a rule in this run only; may be repeated.",
    ),
]
MetadataOnly = Annotated[
    bool,
    typer.Option("--metadata-only", "--no-data", help="Append definitions, but run no steps."),
]
PlanFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A plan that `plan --out FILE` saved; - is stdin.")
]
PlanOutput = Annotated[PlanFormat, typer.Option("-o", "--output")]
MaxBytes = Annotated[
    int, typer.Option("--max-bytes", min=1_000, help="Maximum size of the markdown in bytes.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Show every reason with its cause.")]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Print the blocks to append in full.")
]

# runs

RunOutput = Annotated[
    Literal["text", "json", "ndjson"],
    typer.Option(
        "-o",
        "--output",
        help="Format of the report: text, one JSON document, or one event a line.",
    ),
]
RunReports = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FMT=FILE",
        help="Also write to a file: json is what -o json prints, openlineage one OpenLineage "
        "event a line. May be repeated.",
    ),
]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Print plain lines only.")]
FailFast = Annotated[
    bool,
    typer.Option(
        "--fail-fast/--keep-going",
        help="After a failed step, start no further steps, or continue with those that do not "
        "depend on it.",
    ),
]
Pools = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        metavar="NAME=N",
        help="Let N steps at a time use a pool: a tag of datasets, or `default` for those without "
        "one. May be repeated; overrides `pools:` in odfbuild.yaml.",
    ),
]

# rewrites of chains

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Save the plan for `apply FILE`, and change nothing now."
    ),
]
Downstream = Annotated[
    bool,
    typer.Option(
        "--downstream",
        help="Also rebuild the datasets that are made of them and could not continue afterwards.",
    ),
]

# rows

AsAt = Annotated[
    str | None,
    typer.Option(
        "--as-at",
        metavar="TIME|BLOCK",
        help="What was known then: up to this block, or up to this system time.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="What was in force then: for each key, the row valid at this event time.",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="COLUMN",
        help="With --as-of: the key whose versions the rows are. Default: the primary key of the "
        "source.",
    ),
]
Log = Annotated[
    bool, typer.Option("--log", help="Show the changelog, with offset, operation and system time.")
]
RowOutput = Annotated[
    RowFormat | None,
    typer.Option(
        "-o", "--output", help="The format. Default: by the name of the file, else table."
    ),
]
To = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="Write the rows to this file.")
]
ALL_ROWS = f"Default: {TABLE_ROWS} in a table, else all."
