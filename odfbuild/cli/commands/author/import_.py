"""odfbuild import: take an existing chain into the workspace, and write the definition of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild import app
from odfbuild.app.import_chain import (
    ImportAcceptance,
    ImportCandidate,
    examine,
    folders_of_inputs,
    missing_inputs,
    name_of_folder,
    put_in_place,
    refuse_other,
    refuse_without_inputs,
)
from odfbuild.app.load_project import load
from odfbuild.app.outside_use import uses_of_source
from odfbuild.app.plan.input_history import rewritten_inputs
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import OnBusy
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.commands.author.new import definition_path, editor_line, write_definition
from odfbuild.cli.consent import refuse_unnamed
from odfbuild.cli.files import AlreadyThereError
from odfbuild.cli.render.outside_use import cut
from odfbuild.cli.render.words import bytes_text, count, kind_word
from odfbuild.cli.reservation import reservation
from odfbuild.cli.terminal.console import hint, printable
from odfbuild.errors import Diagnostic, Level, ProjectErrors, UsageRefusedError
from odfbuild.odf.manifest import to_yaml
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import normalize
from odfbuild.planner.diff import diff
from odfbuild.planner.diff.chain_definitions import UndeclarableError, snapshot_of
from odfbuild.project.checks.engines import engine_problems
from odfbuild.project.read import read_manifests
from odfbuild.project.yaml.format import UnformattableError, formatted
from odfbuild.repositories.intake import lost_files
from odfbuild.state.copy import peek
from odfbuild.state.disabled import mark_of
from odfbuild.state.memory.applied import record_applied
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.events import DatasetSnapshot
    from odfbuild.odf.identity import DatasetId
    from odfbuild.project.load import Project

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Definition:
    """A definition that is not written yet."""

    path: PurePosixPath
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMode:
    """Whether a definition is written, whether inputs are taken in that are not here, whether
    sources are used, and whether a head is taken that does not go on from what was accepted.
    """

    definition: bool = True
    with_inputs: bool = False
    with_sources: bool = False
    force: bool = False


def import_(
    given: ProjectArguments,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|NAME",
            help="The folder of a dataset of odfbuild or kamu; or a dataset of the workspace that "
            "has no definition.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Its name here. Default: its name there."),
    ] = None,
    no_definition: Annotated[
        bool, typer.Option("--no-definition", help="Import only the chain; write no YAML.")
    ] = False,
    with_inputs: Annotated[
        bool,
        typer.Option("--with-inputs", help="Import its inputs first, from the folders next to it."),
    ] = False,
    with_sources: Annotated[
        bool,
        typer.Option(
            "--with-sources",
            help="Enable its source, which may run programs and fetch from servers; also for a "
            "dataset that was imported earlier. Default: disabled.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Accept the head even if it does not descend from the one accepted earlier, or "
            "is no longer signed.",
        ),
    ] = False,
) -> int:
    """Import an existing dataset and write its definition."""
    settings = ImportMode(
        definition=not no_definition,
        with_inputs=with_inputs,
        with_sources=with_sources,
        force=force,
    )
    return import_dataset(given, folder, name, settings)


def import_dataset(
    given: ProjectArguments, folder: Path, name: str | None, settings: ImportMode
) -> int:
    """Take the chain of a folder in, under a name, and write the YAML that plans to no change.

    A name in the place of the folder is a dataset of the workspace: only its definition is written.
    """
    project = open_given(given)
    refuse_unnamed(project, given, "import")
    declared = load(project)
    if not folder.is_dir() and name is None and (known := _in_workspace(project, folder)):
        _define_known(given, project, declared, known, settings)
    else:
        _take(given, folder, name, settings, frozenset())
    return exits.DONE


def _take(
    given: ProjectArguments,
    folder: Path,
    name: str | None,
    settings: ImportMode,
    around: frozenset[Path],
) -> None:
    """Take a dataset in; `around` are the folders of what it is an input of."""
    project = open_given(given)
    alias = name_of_folder(folder) if name is None else DatasetAlias.parse(name)
    if settings.definition:
        declared = load(project)
        if _goes_on(project, declared, folder, alias):
            settings = replace(settings, definition=False)
        else:
            _refuse_declared(declared, alias)
    if settings.definition or settings.with_inputs:
        _take_inputs(given, project, alias, folder, settings, around)
    with project.workspace.staging() as staging:
        aside = staging / "chain"
        aside.mkdir()
        found = examine(folder, aside)
        source = found.state.polling
        uses = () if source is None else tuple(uses_of_source(source, project.root))
        with reservation(project, [alias], command="import", on_busy=OnBusy.WAIT) as mine:
            if mine.waited and settings.definition:
                _refuse_declared(load(open_given(given)), alias)
            refuse_other(project, found, alias)
            acceptance = ImportAcceptance(forced=settings.force)
            accepted = acceptance.accept(found, folder)
            there = project.workspace.open(found.copied.dataset)
            before = None if there is None else there.state()
            written = _definition_of(project, found.state, alias) if settings.definition else None
            workspace, id = project.workspace, found.copied.dataset
            known = None if before is None else before.polling
            is_new = source is not None and (known is None or mark_of(known) != mark_of(source))
            bars = bool(uses) and is_new and not settings.with_sources
            if bars:  # before the source is in force; another one may be disabled as yet
                workspace.disable(id, source if before is None else None)
            dataset, restored = put_in_place(project, found, alias)
            problem = acceptance.remember(accepted)
            if bars:
                workspace.disable(id, source)
            elif settings.with_sources:
                workspace.enable(id)
            _say_imported(folder, alias, found, before, restored)
            if is_new:
                _say_sources(alias, uses, settings)
            _finish(given, project, alias, written)
    if problem is not None:
        hint(printable(f"note: the head is not recorded: {problem}") + "\n")
    for line in (*accepted.judged.notes, *_notes(project, alias, dataset.id, found)):
        hint(printable(f"note: {line}") + "\n")


def _goes_on(project: app.Opened, declared: Project, folder: Path, alias: DatasetAlias) -> bool:
    """Say whether a folder has a copy of a dataset that is here and declared, and brings anything.

    It does at another head, or where files of the dataset are lost here.
    """
    there, state = project.workspace.names().get(alias), peek(folder)
    if state is None or there != state.dataset:
        return False
    dataset = project.workspace.dataset(there)
    head = dataset.head()
    if head is None or not any(each.alias == alias for each in declared.declared):
        return False
    return head != state.head or bool(lost_files(dataset, head))


def _take_inputs(
    given: ProjectArguments,
    project: app.Opened,
    alias: DatasetAlias,
    folder: Path,
    settings: ImportMode,
    around: frozenset[Path],
) -> None:
    names = project.workspace.aliases()
    missing = folders_of_inputs(folder, names)
    places = {place for place in missing.values() if place is not None}
    inside = around | {folder.absolute()}
    if missing and (not settings.with_inputs or None in missing.values() or places & inside):
        raise refuse_without_inputs(alias, missing)
    for id, place in missing.items():
        if place is not None and project.workspace.open(id) is None:  # one may bring another
            _take(given, place, None, settings, inside)


def _in_workspace(project: app.Opened, text: Path) -> DatasetAlias | None:
    known = {str(each).lower(): each for each in project.workspace.names()}
    return known.get(str(text).lower())


def _define_known(
    given: ProjectArguments,
    project: app.Opened,
    declared: Project,
    alias: DatasetAlias,
    settings: ImportMode,
) -> None:
    """Write the definition of a dataset that the workspace has and the project does not declare."""
    state = app.find_dataset(project, str(alias)).state()
    assert state is not None  # noqa: S101 - it has a head
    if settings.with_sources and project.workspace.enable(state.dataset):
        sys.stdout.write(f"The source of {alias} is enabled.\n")
        if not settings.definition or any(each.alias == alias for each in declared.declared):
            return
    if not settings.definition:
        raise UsageRefusedError(
            what=f"the workspace has {alias}, and --no-definition is given",
            why="there is nothing to do",
            fix="omit --no-definition",
        )
    _refuse_declared(declared, alias)
    written = _definition_of(project, state, alias)
    sys.stdout.write(f"{alias} is in the workspace, at block {state.sequence}.\n")
    _finish(given, project, alias, written)


def _refuse_declared(declared: Project, alias: DatasetAlias) -> None:
    for each in declared.declared:
        if each.alias == alias:
            raise AlreadyThereError(
                what=f"the project has a dataset {each.alias}",
                why=f"it is defined in {each.span()}",
                fix="give another name: odfbuild import FOLDER NAME; or keep that definition and "
                "add --no-definition",
            )


def _definition_of(project: app.Opened, state: ChainState, alias: DatasetAlias) -> _Definition:
    """Return the definition of a chain, of which a plan finds nothing to change.

    Raises MissingInputsError or UndeclarableError.
    """
    names = project.workspace.aliases()
    if missing := missing_inputs(state, names):
        raise refuse_without_inputs(alias, dict.fromkeys(missing))
    snapshot = snapshot_of(state, alias, names)
    path = definition_path(project, alias)
    text = _text(project, path, snapshot)
    _check(text, path, state, {known: id for id, known in names.items()}, project.config.engines)
    return _Definition(path, text)


def _text(project: app.Opened, path: PurePosixPath, snapshot: DatasetSnapshot) -> str:
    text = editor_line(project, path) + to_yaml("DatasetSnapshot", snapshot)
    try:
        return formatted(text, str(path))
    except UnformattableError:
        return text


def _check(
    text: str,
    path: PurePosixPath,
    state: ChainState,
    names: Mapping[DatasetAlias, DatasetId],
    engines: Collection[str],
) -> None:
    """Refuse a definition that cannot be declared here, or would change the chain.

    `engines` are those elsewhere that the project names.
    """
    read = read_manifests(text, str(path))
    wrong = [*read.errors, *(no for each in read.declared for no in engine_problems(each, engines))]
    if wrong:
        raise ProjectErrors([_as_refusal(each, path) for each in wrong])
    (declared,) = read.declared

    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return names.get(ref, ref) if isinstance(ref, DatasetAlias) else ref

    for change in diff(normalize(declared.snapshot), state, resolve, {}):
        raise UndeclarableError(
            what=f"no definition can express {declared.alias}: {type(change.event).__name__} "
            "would be appended again",
            why="its chain holds something that definitions cannot express",
            fix="add --no-definition to import the chain for reading only",
        )


def _as_refusal(found: Diagnostic, path: PurePosixPath) -> Diagnostic:
    """Say of a finding that it is about what would be written."""
    return Diagnostic(
        code=found.code,
        what=f"{path} would not hold: {found.what}",
        why=found.why,
        fix="add --no-definition to import the chain for reading only",
        span=None,
        level=Level.ERROR,
    )


def _finish(
    given: ProjectArguments,
    project: app.Opened,
    alias: DatasetAlias,
    written: _Definition | None,
) -> None:
    """Write the definition, and note that the dataset is as this project left it."""
    if written is not None:
        write_definition(given, project, written.path, written.text)
        sys.stdout.write(printable(f"Wrote {written.path}; a plan has no changes.") + "\n")
    elif any(each.alias == alias for each in load(project).declared):
        sys.stdout.write("The existing definition stays; a plan shows what it would change.\n")
    else:
        sys.stdout.write(
            "No definition was written: other datasets can read it, but nothing is added to it.\n"
        )
    record_applied(project.workspace, {alias: "ok"})


def _say_imported(
    folder: Path,
    alias: DatasetAlias,
    found: ImportCandidate,
    before: ChainState | None,
    restored: int,
) -> None:
    copied = found.copied
    parts = [
        count(copied.blocks, "block"),
        count(copied.files, "file"),
        bytes_text(copied.bytes),
        "verified",
    ]
    more = len(copied.heads) - 1 if before is None else 0  # a dataset that is here keeps its own
    refs = f", {count(more, 'other reference')}" if more else ""
    more_blocks = 0 if before is None else found.state.sequence - before.sequence
    lines = [
        f"{alias} gets {count(more_blocks, 'block')} from {os.fspath(folder)}"
        if more_blocks
        else f"Imported {alias} from {os.fspath(folder)}",
        f"  {kind_word(found.state.kind)}  {copied.dataset}",
        f"  head {found.state.head}{refs}",
        f"  {', '.join(parts)}",
        *([f"  {count(restored, 'lost file')} brought back"] if restored else []),
    ]
    sys.stdout.write("".join(printable(line) + "\n" for line in lines))


def _say_sources(
    alias: DatasetAlias, uses: Sequence[tuple[str, str]], settings: ImportMode
) -> None:
    """List what the source of a chain asks for outside of the project, and whether it is used."""
    if not uses:
        return
    lines = ["Its source uses resources outside of the project"]
    lines += [f"  {kind:<9}  {cut(name)}" for kind, name in uses]
    if not settings.with_sources:
        lines.append(f"It is disabled until you enable it: odfbuild import {alias} --with-sources")
    sys.stdout.write("".join(printable(line) + "\n" for line in lines))


def _notes(
    project: app.Opened, alias: DatasetAlias, id: DatasetId, found: ImportCandidate
) -> Iterator[str]:
    names = project.workspace.aliases()
    ahead = rewritten_inputs(project.workspace, project.workspace.states()).get(alias, ())
    for each in sorted(map(str, (names.get(input, input) for input in ahead))):
        yield (
            f"it was made of blocks of {each} that are not here, so its next step is refused; "
            f"import a longer copy of {each}: odfbuild import FOLDER"
        )
    if missing := missing_inputs(found.state, names):
        yield f"it reads datasets that the workspace does not have: {', '.join(map(str, missing))}"
    if left := found.copied.left:
        yield f"not part of the chain, and not copied: {_some(left)}"
    if not project.workspace.keys.has(id):
        yield (
            "its private key is not here; the dataset can be read and built without it. odfbuild "
            "key import imports an exported key"
        )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
