"""odfbuild new: write the definition of a dataset, guessed from a sample or of known columns."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.app.loading import load, locked_schemas
from odfbuild.cli import exits
from odfbuild.cli.accept import UnknownDatasetError
from odfbuild.cli.files import AlreadyThereError, editing, write_new
from odfbuild.cli.new_root import guessed_root, unknown_root
from odfbuild.cli.new_text import Input, Root, derivative_text, root_text
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given
from odfbuild.cli.printable import printable
from odfbuild.cli.upgrade import UsageError
from odfbuild.errors import ProjectError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.names import did_you_mean
from odfbuild.project.format import formatted
from odfbuild.redaction import hiding
from odfbuild.regular_files import open_regular

if TYPE_CHECKING:
    from odfbuild.executors.sampled import Sample
    from odfbuild.project.load import Project

__all__ = [
    "OutsideError",
    "definition_path",
    "editor_line",
    "new_dataset",
    "write_definition",
]

_MOST = 1 << 20
_MOST_FILES = 50
_EDITOR = "schemas/DatasetSnapshotManifest.schema.json"


class OutsideError(ProjectError):
    """A file that a definition would name is not in the project."""

    code = "outside-project"


def new_dataset(
    given: Given, name: str, origin: str | None, *, root: bool, derivative: bool
) -> int:
    """Write a definition that loads; nothing is written when it would not.

    `origin` is a file or URL with a sample for a root, names of datasets for a derivative.
    """
    if root == derivative:
        raise UsageError(
            what="a dataset is either a root or a derivative",
            why="a root takes data in from outside, a derivative is made from other datasets",
            fix=f"odfbuild new {name} --root, or --derivative",
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
        printable(f"Wrote {path}. Look at what was guessed, then: odfbuild plan") + "\n"
    )
    return exits.DONE


def _free(loaded: "Project", name: str) -> DatasetAlias:
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
            what=f"{path} is there already",
            why="no file is overwritten",
            fix="move it away, or write the definition into it by hand",
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


def _of_url(url: str) -> "Sample":
    from odfbuild import __version__
    from odfbuild.executors.request import Request, printable, url_secrets
    from odfbuild.executors.sample import take_sample

    if url.lower().startswith("ftp"):
        from odfbuild.executors.ftp import beginning
    else:
        from odfbuild.executors.http import beginning
    shown = printable(url).partition("?")[0]
    request = Request(url=url, name=shown, agent=f"odfbuild/{__version__}")
    with hiding(url_secrets(url)):
        data, whole = beginning(request, _MOST)
        return take_sample(data, PurePosixPath(shown).name, whole=whole)


def _with_epochs(sample: "Sample") -> "Sample":
    from odfbuild.executors.sample_union import with_epochs

    return with_epochs(sample)


def _of_files(project: app.Opened, origin: str) -> "tuple[Sample, str, str]":
    """Return a sample of a file, or of all that a pattern names; its path, and how it is called."""
    import glob

    from odfbuild.executors.local import fixed_part

    if not glob.has_magic(origin) or Path(origin).exists():
        file = Path(origin)
        return *_of_file(project, file), file.name
    from odfbuild.executors.sample_union import union_of

    files = [Path(each) for each in sorted(glob.glob(origin, recursive=True))]  # noqa: PTH207
    files = [each for each in files if each.is_file()]
    if not files:
        raise UsageError(
            what=f"no file matches {origin}",
            why="the columns are guessed from what files show",
            fix="correct the pattern, which is relative to where you are; put it in quotes",
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


def _of_file(project: app.Opened, file: Path) -> "tuple[Sample, str]":
    """Return a sample of a file, and its path within the project."""
    from odfbuild.executors.sample import MAX_SAMPLE, take_sample

    with open_regular(file) as opened:
        data = opened.read(MAX_SAMPLE + 1)
    real, root = file.resolve(), project.root.resolve()
    if not real.is_relative_to(root):
        raise OutsideError(
            what=f"{file} is not in the project",
            why="a project must work on every machine that it is copied to",
            fix=f"copy it to a folder in {project.root}, such as data/{file.name}",
        )
    sample = take_sample(data[:MAX_SAMPLE], file.name, whole=len(data) <= MAX_SAMPLE)
    return sample, real.relative_to(root).as_posix()


def _inputs(
    project: app.Opened, loaded: "Project", name: str, origin: str | None
) -> Sequence[Input]:
    names = [each.strip() for each in (origin or "").split(",") if each.strip()]
    if not names:
        raise UsageError(
            what="a derivative is made from other datasets",
            why="its query has to read some",
            fix=f"odfbuild new {name} --derivative --from DATASET[,DATASET]",
        )
    columns = _columns(project, loaded)
    inputs: list[Input] = []
    for each in names:
        known = next((alias for alias in columns if alias == DatasetAlias.parse(each)), None)
        if known is None:
            raise UnknownDatasetError(
                what=f"the project has no dataset '{each}'",
                why="a derivative reads datasets that are declared",
                fix=did_you_mean(each, map(str, columns)) or "odfbuild list shows the datasets",
            )
        found, time = columns[known]
        inputs.append(
            Input(dataset=str(known), alias=_short(known, inputs), columns=found, time=time)
        )
    return inputs


def _short(alias: DatasetAlias, others: Sequence[Input]) -> str:
    """Return the last part of a name as the name in the query, with a number if it is taken."""
    last = str(alias).rpartition("/")[2].rpartition(".")[2]
    taken = {each.alias for each in others}
    return next(
        each for each in (last, *(f"{last}_{n}" for n in range(2, 999))) if each not in taken
    )


def _columns(
    project: app.Opened, loaded: "Project"
) -> Mapping[DatasetAlias, tuple[tuple[str, ...] | None, str]]:
    """Return the columns of every declared dataset as far as they are known, and its event time."""
    from odfbuild.planner.evolution.derive import makes_of_events
    from odfbuild.planner.evolution.resolve import Resolver

    resolver = Resolver({}, locked_schemas(project.root, loaded))
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


def write_definition(given: Given, project: app.Opened, path: PurePosixPath, text: str) -> None:
    """Write a definition, and take it away again if the project cannot be read with it."""
    with editing(project.root):
        _write_definition(given, project, path, text)


def _write_definition(given: Given, project: app.Opened, path: PurePosixPath, text: str) -> None:
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
