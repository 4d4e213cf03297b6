"""odfbuild new: a definition guessed from a sample, or of known columns."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odfbuild.app.load_project import load, locked_schemas
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.commands.author.accept import UnknownFindingDatasetError
from odfbuild.cli.commands.author.upgrade import UsageError
from odfbuild.cli.files import AlreadyThereError, editing, write_new
from odfbuild.cli.render.definition import InputColumns, Root, derivative_text, root_text
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import ProjectError
from odfbuild.host.files import open_regular
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.yaml.format import formatted
from odfbuild.texts.redaction import hiding
from odfbuild.texts.suggest import did_you_mean

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.executors.ingest.sample.model import Sample, SampledColumn
    from odfbuild.project.load import Project


_FEWEST_DIGITS = 4
_NUMBERS = re.compile(r"[0-9]+(?:[-_][0-9]+)*")


def guessed_root(name: str, sample: Sample, fetch: Mapping[str, str], file: str) -> Root:
    """Return a root that reads what the sample shows; `file` is how it is called."""
    time = _time(sample.columns)
    merge, note = _merge(sample, time)
    rows = "row" if sample.rows == 1 else "rows"
    first = f"Inferred from {sample.rows:,} {rows} of {file}: check the types, key and event time."
    return Root(
        name=name,
        notes=[first, *(f"Note: {each}." for each in sample.notes)],
        fetch=_pattern(fetch),
        prepare=sample.prepare,
        read=_read(sample),
        merge=merge,
        merge_note=note,
        columns=[each.name for each in sample.columns],
        time=None if time is None else time.name,
        time_note="" if time is None else "Inferred: the first column of times.",
        query=sample.query,
    )


def unknown_root(name: str) -> Root:
    """Return a root to be filled in."""
    folder = name.rpartition("/")[2].rpartition(".")[2]
    return Root(
        name=name,
        notes=["To be completed: the files, their columns, the key."],
        fetch={"kind": "FilesGlob", "path": f"data/{folder}/*.csv"},
        read={"kind": "Csv", "schema": ["id BIGINT NOT NULL", "time TIMESTAMP"], "header": True},
        merge={"kind": "Ledger", "primaryKey": ["id"]},
        merge_note="A ledger only grows: a row whose key was seen before is skipped.",
        columns=["id", "time"],
        time="time",
    )


def _read(sample: Sample) -> Mapping[str, Any]:
    columns = sample.columns if sample.read_as is None else sample.read_as
    given = dict(sample.read)
    return {"kind": given.pop("kind"), "schema": [each.ddl for each in columns], **given}


def _pattern(fetch: Mapping[str, str]) -> Mapping[str, str]:
    """Return a fetch step of all files beside one that has a day or number in its name."""
    path = PurePosixPath(fetch.get("path", ""))
    if "*" in path.name or "?" in path.name:
        return fetch
    stem, dot, suffix = path.name.partition(".")
    longest = max(_NUMBERS.finditer(stem), key=lambda found: len(found[0]), default=None)
    if longest is None or sum(map(str.isdigit, longest[0])) < _FEWEST_DIGITS:
        return fetch
    return {**fetch, "path": str(path.with_name(f"{stem[: longest.start()]}*{dot}{suffix}"))}


def _time(columns: Sequence[SampledColumn]) -> SampledColumn | None:
    """Return the first column of times that is never null, else the first one."""
    times = [each for each in columns if each.is_time]
    return next((each for each in times if None not in each.values), next(iter(times), None))


def _merge(sample: Sample, time: SampledColumn | None) -> tuple[Mapping[str, Any], str]:
    """Return how rows are merged, and why that was guessed."""
    key = next((each for each in sample.columns if each.is_key), None)
    if key is None:
        return {"kind": "Append"}, "No column identifies rows: every row is appended."
    if time is None:
        note = f"Inferred: each file is the full state, and {key.name} identifies its rows."
        return {"kind": "Snapshot", "primaryKey": [key.name]}, note
    if key is not time and len(set(map(str, time.values))) == 1 and sample.rows > 1:
        note = f"Inferred: a file is about one {time.name}, and {key.name} identifies its rows."
        return {"kind": "Ledger", "primaryKey": [time.name, key.name]}, note
    note = f"Inferred: rows never change, and {key.name} identifies them."
    return {"kind": "Ledger", "primaryKey": [key.name]}, note


_MOST = 1 << 20
_MOST_FILES = 50
_EDITOR = "schemas/DatasetSnapshotManifest.schema.json"


class OutsideError(ProjectError):
    """A file that a definition would name is outside of the project."""

    code = "outside-project"


def new(
    given: ProjectArguments,
    name: Annotated[str, typer.Argument(help="The name of the dataset.")],
    root: Annotated[
        bool, typer.Option("--root", help="A root: it ingests data from outside.")
    ] = False,
    derivative: Annotated[
        bool, typer.Option("--derivative", help="A derivative: it is made of other datasets.")
    ] = False,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE|URL|DATASETS",
            help="A file or URL to infer columns from; for a derivative its inputs: A,B.",
        ),
    ] = None,
) -> int:
    """Write the definition of a dataset, from a sample of its data.

    `origin` is a file or URL with a sample for a root, names of datasets for a derivative.
    """
    if root == derivative:
        rest = "" if origin is None else f" --from {quote(origin)}"
        raise UsageError(
            what="a dataset is either a root or a derivative",
            why="a root ingests data from outside, a derivative is made of other datasets",
            fix=f"odfbuild new {name} --root{rest}, or --derivative instead",
        )
    project = open_given(given)
    loaded = load(project)
    alias = _free(loaded, name)
    path = definition_path(project, alias)
    text = (
        root_text(_root(project, alias, origin))
        if root
        else derivative_text(str(alias), _inputs(project, loaded, name, origin))
    )
    write_definition(given, project, path, formatted(editor_line(project, path) + text, str(path)))
    sys.stdout.write(
        printable(f"Wrote {path}. Check what was inferred, then: odfbuild plan") + "\n"
    )
    return exits.DONE


def _free(loaded: Project, name: str) -> DatasetAlias:
    alias = DatasetAlias.parse(name)
    declared = next((each for each in loaded.declared if each.alias == alias), None)
    if declared is not None:
        raise AlreadyThereError(
            what=f"the project has a dataset {declared.alias}",
            why=f"it is defined in {declared.span()}",
            fix="choose another name",
        )
    return alias


def definition_path(project: app.Opened, alias: DatasetAlias) -> PurePosixPath:
    """Return where the definition goes: each part of the name is a folder, the last the file."""
    *folders, last = str(alias).replace("/", ".").split(".")
    path = PurePosixPath(project.folders[0], *folders, f"{last}.yaml")
    if os.path.lexists(project.root / path):
        raise AlreadyThereError(
            what=f"{path} exists already",
            why="files are not overwritten",
            fix="move it, or write the definition into it by hand",
        )
    return path


def editor_line(project: app.Opened, path: PurePosixPath) -> str:
    """Return the comment that tells editors the schema of a definition, if the project has it."""
    if not (project.root / _EDITOR).is_file():
        return ""
    up = "../" * (len(path.parts) - 1)
    return f"# yaml-language-server: $schema={up}{_EDITOR}\n"


def _root(project: app.Opened, alias: DatasetAlias, origin: str | None) -> Root:
    if origin is None:
        return unknown_root(str(alias))
    if origin.lower().startswith(("http://", "https://", "ftp://", "ftps://")):
        sample, shown = _of_url(origin), PurePosixPath(origin.partition("?")[0]).name
        fetch: Mapping[str, str] = {"kind": "Url", "url": origin}
    else:
        sample, inside, shown = _of_files(project, origin)
        fetch = {"kind": "FilesGlob", "path": inside}
    return guessed_root(str(alias), _with_epochs(sample), fetch, shown)


def _of_url(url: str) -> Sample:
    from odfbuild import __version__
    from odfbuild.executors.ingest.fetch.request import Request, printable, url_secrets
    from odfbuild.executors.ingest.sample import take_sample

    if url.lower().startswith("ftp"):
        from odfbuild.executors.ingest.fetch.ftp import beginning
    else:
        from odfbuild.executors.ingest.fetch.http import beginning
    shown = printable(url).partition("?")[0]
    request = Request(url=url, name=shown, agent=f"odfbuild/{__version__}")
    with hiding(url_secrets(url)):
        data, whole = beginning(request, _MOST)
        return take_sample(data, PurePosixPath(shown).name, whole=whole)


def _with_epochs(sample: Sample) -> Sample:
    from odfbuild.executors.ingest.sample.union import with_epochs

    return with_epochs(sample)


def _of_files(project: app.Opened, origin: str) -> tuple[Sample, str, str]:
    """Return a sample of a file, or of all that a pattern names; its path, and how it is called."""
    import glob

    from odfbuild.executors.ingest.fetch.local import fixed_part

    if not glob.has_magic(origin) or Path(origin).exists():
        file = Path(origin)
        return *_of_file(project, file), file.name
    from odfbuild.executors.ingest.sample.union import union_of

    files = [Path(each) for each in sorted(glob.glob(origin, recursive=True))]  # noqa: PTH207
    files = [each for each in files if each.is_file()]
    if not files:
        raise UsageError(
            what=f"no file matches {origin}",
            why="columns are inferred from files",
            fix="correct the pattern, which is relative to the current folder, and quote it",
        )
    found = [(each.name, _of_file(project, each)[0]) for each in _spread(files)]
    folder = fixed_part(origin)
    rest = origin.removeprefix(folder).lstrip("/")
    inside = Path(folder).resolve().relative_to(project.root.resolve()) / rest
    more = f"{len(found):,} of " if len(found) < len(files) else ""
    return union_of(found), inside.as_posix(), f"{more}{len(files):,} files"


def _spread(files: Sequence[Path]) -> Sequence[Path]:
    """Return so many files of a long list as are looked into, first and last among them."""
    if len(files) <= _MOST_FILES:
        return files
    last = len(files) - 1
    return [files[n * last // (_MOST_FILES - 1)] for n in range(_MOST_FILES)]


def _of_file(project: app.Opened, file: Path) -> tuple[Sample, str]:
    """Return a sample of a file, and its path within the project."""
    from odfbuild.executors.ingest.sample import MAX_SAMPLE, take_sample

    with open_regular(file) as opened:
        data = opened.read(MAX_SAMPLE + 1)
    real, root = file.resolve(), project.root.resolve()
    if not real.is_relative_to(root):
        raise OutsideError(
            what=f"{file} is not in the project",
            why="a project must work on every machine to which it is copied",
            fix=f"copy it to a folder in {project.root}, such as data/{file.name}",
        )
    sample = take_sample(data[:MAX_SAMPLE], file.name, whole=len(data) <= MAX_SAMPLE)
    return sample, real.relative_to(root).as_posix()


def _inputs(
    project: app.Opened, loaded: Project, name: str, origin: str | None
) -> Sequence[InputColumns]:
    names = [each.strip() for each in (origin or "").split(",") if each.strip()]
    if not names:
        raise UsageError(
            what="a derivative is made of other datasets",
            why="its query must read at least one",
            fix=f"odfbuild new {name} --derivative --from DATASET[,DATASET]",
        )
    columns = _columns(project, loaded)
    inputs: list[InputColumns] = []
    for each in names:
        known = next((alias for alias in columns if alias == DatasetAlias.parse(each)), None)
        if known is None:
            raise UnknownFindingDatasetError(
                what=f"the project has no dataset '{each}'",
                why="a derivative reads datasets that are declared",
                fix=did_you_mean(each, map(str, columns)) or "odfbuild list shows the datasets",
            )
        found, time = columns[known]
        inputs.append(
            InputColumns(dataset=str(known), alias=_short(known, inputs), columns=found, time=time)
        )
    return inputs


def _short(alias: DatasetAlias, others: Sequence[InputColumns]) -> str:
    """Return the last part of a name as the name in the query, with a number if it is taken."""
    last = str(alias).rpartition("/")[2].rpartition(".")[2]
    taken = {each.alias for each in others}
    return next(
        each for each in (last, *(f"{last}_{n}" for n in range(2, 999))) if each not in taken
    )


def _columns(
    project: app.Opened, loaded: Project
) -> Mapping[DatasetAlias, tuple[tuple[str, ...] | None, str]]:
    """Return the columns of every declared dataset as far as they are known, and its event time."""
    from odfbuild.executors.engine.quick_columns import QuickColumns
    from odfbuild.planner.evolution.columns.derive import makes_of_events
    from odfbuild.planner.evolution.columns.resolve import Resolver

    engine = QuickColumns(project)
    resolver = Resolver({}, locked_schemas(project.root, loaded), engine=engine)
    makes = {
        each.alias: makes_of_events(each.snapshot.kind, each.snapshot.metadata)
        for each in loaded.declared
    }
    for alias, one in makes.items():
        resolver.put(alias, one)
    found = {}
    for alias, one in makes.items():
        schema = resolver.after(alias).schema
        names = None if schema is None else tuple(field.name for field in schema.fields)
        found[alias] = names, one.vocab.event_time_column
    return found


def write_definition(
    given: ProjectArguments, project: app.Opened, path: PurePosixPath, text: str
) -> None:
    """Write a definition, and take it away again if the project cannot be read with it."""
    with editing(project.root):
        _write_definition(given, project, path, text)


def _write_definition(
    given: ProjectArguments, project: app.Opened, path: PurePosixPath, text: str
) -> None:
    file = project.root / path
    made = [each for each in file.parents if not each.exists()]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_new(file, text.encode())
    try:
        load(open_given(given))
    except BaseException:
        file.unlink()
        for folder in made:
            folder.rmdir()
        raise
