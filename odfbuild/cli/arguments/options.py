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
        help="Datasets: name, glob*, +up, down+, tag:x, path:dir, state:stale and more. "
        "Default: all of them.",
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
    typer.Option("--exclude", metavar="SEL", help="Leave out what this selects; repeatable."),
]
PlanExclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="SEL", help="Leave these out; may be repeated."),
]

# how a command works

Yes = Annotated[bool, typer.Option("-y", "--yes", envvar="ODFBUILD_YES", help="Do not ask.")]
Jobs = Annotated[int, typer.Option("-j", "--jobs", min=1, help="Steps at a time.")]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Ask no repository: inputs that are datasets of one stay as they are here.",
    ),
]
PlanOffline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Ask neither repositories of inputs nor the object store that the workspace is in: "
        "plan with what was seen of them here.",
    ),
]
StoreOffline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Do not ask the object store that the workspace is in: show what was seen of it here.",
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; end with 3 if something would change.")
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
        help="While another run works on the same datasets: wait for it, leave these and what "
        "follows from them out, or end.",
    ),
]

# what is printed

TextFormat = Annotated[Literal["text", "json"], typer.Option("-o", "--output")]
TableFormat = Annotated[Literal["table", "json"], typer.Option("-o", "--output")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="With -o csv: put ' before texts that a spreadsheet would compute, as =, +, -, @ do.",
    ),
]
Reports = Annotated[
    list[str] | None,
    typer.Option(
        "--report", metavar="FMT=FILE", help="Write junit or json to a file, too; repeatable."
    ),
]

# plans

Gate = Annotated[
    str,
    typer.Option(
        "--gate",
        metavar="strict|default|off",
        help="strict refuses warnings, too; off refuses nothing.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="CODE[:SEL]", help="Let a rule pass this once; may be repeated."
    ),
]
MetadataOnly = Annotated[
    bool,
    typer.Option("--metadata-only", "--no-data", help="Append definitions, run nothing."),
]
PlanFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A plan that `plan --out FILE` saved; - is stdin.")
]
PlanOutput = Annotated[PlanFormat, typer.Option("-o", "--output")]
MaxBytes = Annotated[
    int, typer.Option("--max-bytes", min=1_000, help="The most bytes of markdown.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Give every reason, and what is behind it.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print the whole blocks to append.")]

# runs

RunOutput = Annotated[
    Literal["text", "json", "ndjson"],
    typer.Option(
        "-o",
        "--output",
        help="Format of the report: words, one document, or events, a line each.",
    ),
]
RunReports = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FMT=FILE",
        help="Write to a file, too: json, what -o json prints; openlineage, the events of the run "
        "as OpenLineage has them, a line each. May be repeated.",
    ),
]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Plain lines only.")]
FailFast = Annotated[
    bool,
    typer.Option(
        "--fail-fast/--keep-going",
        help="Begin nothing more once a step failed, or go on with what does not depend on it.",
    ),
]
Pools = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        metavar="NAME=N",
        help="Let N steps at a time use a pool: a tag of datasets, or `default` for those without "
        "one; may be repeated, and goes before `pools:` of odfbuild.yaml.",
    ),
]

# rewrites of chains

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and end.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Save it for `apply FILE`, and do nothing now."),
]
Downstream = Annotated[
    bool,
    typer.Option(
        "--downstream",
        help="In the same plan rebuild what is made of them and cannot go on afterwards.",
    ),
]

# rows

AsAt = Annotated[
    str | None,
    typer.Option(
        "--as-at",
        metavar="TIME|BLOCK",
        help="What was known then: blocks up to this one, or up to this system time.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="What should have been known then: of each key the row in force at this event time.",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="COLUMN",
        help="With --as-of: whose versions rows are. Default: the primary key of the source.",
    ),
]
Log = Annotated[
    bool, typer.Option("--log", help="The changelog: offset, operation and system time, too.")
]
RowOutput = Annotated[
    RowFormat | None,
    typer.Option("-o", "--output", help="The format. Default: that of the file, else table."),
]
To = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="Write the rows to this file.")
]
ALL_ROWS = f"Default: {TABLE_ROWS} in a table, else all."
