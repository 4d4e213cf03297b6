"""odfbuild mv: rename a dataset wherever the project names it; its chain goes on.

The entry of `moved:` is written first.  While it is there and the definition or an input has the
old name, no plan is made; the same command again does what is left.  It has the leases of both
names, so that no run works on the dataset meanwhile, and no other command edits files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.app.load_project import load
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Busy, LockTimeout, OnBusy
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.commands.author.accept import UnknownFindingDatasetError
from odfbuild.cli.files import editing, replace_files
from odfbuild.cli.reservation import reservation
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.executors.testing.files import dataset_mentions
from odfbuild.host.files import read_regular
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project import PROJECT_FILE
from odfbuild.project.files.places import places_of
from odfbuild.project.opened import refuse_damaged
from odfbuild.project.template.rendered import RenderedSource
from odfbuild.project.yaml.edit import Add, Change, SetValue, edited_bytes
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.plan.policy import RenamedDataset


@dataclass(frozen=True, slots=True)
class _FileStep:
    """One edit of a file, and the line that reports it."""

    file: str
    change: Change
    shown: str


def mv(
    given: ProjectArguments,
    old: Annotated[str, typer.Argument(help="The present name of the dataset.")],
    new: Annotated[str, typer.Argument(help="The new name.")],
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Rename a dataset, its uses as input and its tests. Adds a moved: entry.

    All files are changed or none; what a process that was killed left undone is done.  Raises
    ProjectErrors with every place that a template writes.
    """
    project = open_given(given)
    names = DatasetAlias.parse(old), DatasetAlias.parse(new)
    with reservation(project, names, command="mv", on_busy=on_busy) as mine:
        if not mine.busy:
            with editing(project.root, timeout=lock_timeout):
                _move(given, old, new)
    return exits.DONE


def _move(given: ProjectArguments, old: str, new: str) -> None:
    project = open_given(given)
    begun = _path(project, DatasetAlias.parse(old), DatasetAlias.parse(new))
    declared = load(project, _input_names(project, begun)).declared
    if begun and _is_named(declared, begun[-1].new):
        source, target = begun[0].old, begun[-1].new
    else:
        source = _source(project, declared, old)
        target = _target(project, declared, source, new)
    steps, found = _steps(project, declared, source, target)
    if found:
        raise ProjectErrors(found)
    _write(given, project, steps)
    for each in steps:
        sys.stdout.write(printable(each.shown) + "\n")
    for line in (
        *_remaining_mentions(project, source),
        *_remaining_rows(project, declared, source, target),
    ):
        sys.stdout.write(printable(line) + "\n")
    sys.stdout.write(printable(f"Moved {source} to {target}. Next: odfbuild plan") + "\n")


def rename_edits(
    project: app.Opened, declared: Sequence[Declared], old: str, new: str
) -> Mapping[str, Sequence[Change]]:
    """Return the edits that rename a dataset, by file; nothing is changed.

    Raises ProjectErrors where the new name is taken, or a template writes the old one, and
    InvalidNameError of what is no name.
    """
    source = _source(project, declared, old)
    steps, found = _steps(project, declared, source, _target(project, declared, source, new))
    if found:
        raise ProjectErrors(found)
    return _by_file(steps)


def _input_names(
    project: app.Opened, begun: Sequence[RenamedDataset]
) -> dict[DatasetAlias, DatasetId]:
    """Return the datasets that inputs may name; a definition may have lost its old name already."""
    lost = dict.fromkeys((each.old for each in begun), DatasetId(bytes(32)))
    return {**lost, **project.workspace.names()}


def _is_named(declared: Sequence[Declared], name: DatasetAlias) -> bool:
    return any(each.alias == name for each in declared)


def _source(project: app.Opened, declared: Sequence[Declared], name: str) -> DatasetAlias:
    wanted = DatasetAlias.parse(name)
    found = next((each.alias for each in declared if each.alias == wanted), None)
    if found is None:
        refuse_damaged(project, wanted)
        raise UnknownFindingDatasetError(
            what=f"the project has no dataset '{name}'",
            why="only declared datasets can be renamed",
            fix=did_you_mean(name, [str(each.alias) for each in declared])
            or "odfbuild list shows the datasets",
        )
    return found


def _target(
    project: app.Opened, declared: Sequence[Declared], old: DatasetAlias, name: str
) -> DatasetAlias:
    new = DatasetAlias.parse(name)
    taken = {each.alias: "the project" for each in declared}
    chains = project.workspace.names()
    on_the_way = _path(project, old, new) or _path(project, new, old)
    if old in chains or not on_the_way:  # else it is the chain of this dataset
        taken |= dict.fromkeys(chains, "the workspace")
    if new not in taken:
        return new
    why = f"{taken[new]} has a dataset of that name"
    if new == old:
        why = "names differ by more than letter case"
    raise ProjectErrors(
        [
            Diagnostic(
                code="taken-name",
                what=f"'{name}' is taken",
                why=why,
                fix="choose another name",
                span=None,
            )
        ]
    )


def _steps(
    project: app.Opened, declared: Sequence[Declared], old: DatasetAlias, new: DatasetAlias
) -> tuple[list[_FileStep], list[Diagnostic]]:
    """Return all edits, and the places that cannot be edited."""
    steps: list[_FileStep] = []
    found: list[Diagnostic] = []
    for each in declared:
        if each.alias == old:
            steps += _rename_steps(each, new, found)
        steps += _inputs(each, old, new, found)
    steps += _tests(project, old, new)
    return [*steps, *_settings(project, old, new)], found


def _tests(project: app.Opened, old: DatasetAlias, new: DatasetAlias) -> Iterator[_FileStep]:
    """Yield the edits of files of tests; rows of inputs are there by the names of the query."""
    for each in dataset_mentions(project.root):
        if not each.is_key and _names(each.name, old):
            change = SetValue((*each.path,), str(new), document=each.document)
            yield _FileStep(each.file, change, f"{each.span}: {each.name} -> {new}")


def _names(text: str | None, alias: DatasetAlias) -> bool:
    return text is not None and text.casefold() == str(alias).casefold()


def _rename_steps(
    each: Declared, new: DatasetAlias, found: list[Diagnostic]
) -> Iterator[_FileStep]:
    span = each.span()
    if _is_written(each):
        yield _step(each, ("content", "name"), str(new), f"name: {each.alias} -> {new}")
    else:
        fix = f"change the name there; in {PROJECT_FILE} add: moved: [{{from: {each.alias}, "
        found.append(_refusal(span, f"the name {each.alias} is not edited", f"{fix}to: {new}}}]"))


def _inputs(
    each: Declared, old: DatasetAlias, new: DatasetAlias, found: list[Diagnostic]
) -> Iterator[_FileStep]:
    """Yield the edits of inputs; one that was called by its name keeps it in the query."""
    for at, event in enumerate(each.written.metadata):
        if not isinstance(event, SetTransform):
            continue
        for n, given in enumerate(event.inputs):
            if given.dataset_ref != old:
                continue
            path = ("metadata", at, "inputs", n)
            if not _is_written(each):
                span = each.span((*path, "datasetRef"))
                what = f"an input of {each.alias} is not edited"
                found.append(_refusal(span, what, f"write {new} there, with alias: {old}"))
                continue
            shown = f"input {given.dataset_ref} -> {new}"
            yield _step(each, ("content", *path, "datasetRef"), str(new), shown)
            if given.alias is None:
                alias = str(given.dataset_ref)
                where = ("content", *path, "alias")
                yield _step(each, where, alias, f"alias: {alias}, as the query calls it")


def _settings(project: app.Opened, old: DatasetAlias, new: DatasetAlias) -> Iterator[_FileStep]:
    """Yield the edits of the project file; moves that led to the old name are turned round."""
    moves = project.config.moved
    for at, accepted in enumerate(project.config.accepted):
        if accepted.dataset == old:
            change = SetValue(("accept", at, "dataset"), str(new))
            yield _FileStep(PROJECT_FILE, change, f"{accepted.span}: accepted for {new}")
    if _path(project, old, new):
        return
    shown = f"{PROJECT_FILE}: moved from {old} to {new}"
    back = _path(project, new, old)
    for each in back:
        at = moves.index(each)
        yield _FileStep(PROJECT_FILE, SetValue(("moved", at, "from"), str(each.new)), shown)
        where = f"{each.span}: in the place of the move of {each.old} to {each.new}"
        yield _FileStep(PROJECT_FILE, SetValue(("moved", at, "to"), str(each.old)), where)
    if not back:
        yield _FileStep(PROJECT_FILE, Add(("moved",), {"from": str(old), "to": str(new)}), shown)


def _path(
    project: app.Opened, start: DatasetAlias, end: DatasetAlias
) -> tuple[RenamedDataset, ...]:
    """Return the moves that lead from one name to another, none if they do not."""
    steps = {each.old: each for each in project.config.moved}
    found: list[RenamedDataset] = []
    at = start
    while at != end:
        if at not in steps or steps[at] in found:
            return ()
        found.append(steps[at])
        at = steps[at].new
    return tuple(found)


def _is_written(each: Declared) -> bool:
    """Tell whether a definition is in a file of the project as it is read."""
    places = places_of(each) if each.package is None else None
    return places is not None and not isinstance(places.source, RenderedSource)


def _step(each: Declared, path: tuple[str | int, ...], value: str, shown: str) -> _FileStep:
    change = SetValue(path, value, document=each.document)
    return _FileStep(each.file, change, f"{each.span(path[1:])}: {shown}")


def _refusal(span: SourceSpan, what: str, fix: str) -> Diagnostic:
    why = "a template or a package writes it, possibly for other datasets, too"
    return Diagnostic(code="not-written-here", what=what, why=why, fix=fix, span=span)


def _write(given: ProjectArguments, project: app.Opened, steps: Sequence[_FileStep]) -> None:
    """Change all files; when the project cannot be read afterwards, change them back."""
    changes = _by_file(steps)
    before = {name: read_regular(project.root / name) for name in changes}
    after = {name: edited_bytes(before[name], name, changes[name]) for name in changes}
    _put(project, after)
    try:
        load(open_given(given))
    except BaseException:
        _put(project, dict(reversed(before.items())))
        raise


def _by_file(steps: Sequence[_FileStep]) -> Mapping[str, Sequence[Change]]:
    """Return the changes of each file, those of the project file first."""
    changes: dict[str, list[Change]] = {PROJECT_FILE: []}
    for each in steps:
        changes.setdefault(each.file, []).append(each.change)
    if not changes[PROJECT_FILE]:
        del changes[PROJECT_FILE]
    return changes


def _put(project: app.Opened, content: Mapping[str, bytes]) -> None:
    replace_files({project.root / name: data for name, data in content.items()})


def _remaining_rows(
    project: app.Opened, declared: Sequence[Declared], old: DatasetAlias, new: DatasetAlias
) -> Iterator[str]:
    """Yield where tests give rows to the input by its name, which its query calls otherwise."""
    for each in dataset_mentions(project.root):
        if not each.is_key or not _names(each.name, old):
            continue
        called = {
            given.alias
            for definition in declared
            if _names(each.dataset, definition.alias)
            for event in definition.written.metadata
            for given in (event.inputs if isinstance(event, SetTransform) else ())
            if given.dataset_ref == old
        }
        for alias in sorted(called - {None, each.name}, key=str):
            yield f"{each.span}: still names {old}: write {new}, or {alias}"


def _remaining_mentions(project: app.Opened, old: DatasetAlias) -> Iterator[str]:
    """Yield other lines of the project file that name the dataset, such as selectors."""
    name = re.escape(str(old))
    named = re.compile(rf"(?<![\w.-]){name}(?![\w-]|\.\w)", re.IGNORECASE)
    moved = re.compile(rf"\b(?:from|to)\b['\"]?:\s*['\"]?{name}\b", re.IGNORECASE)
    lines = read_regular(project.root / PROJECT_FILE).decode("utf-8-sig").splitlines()
    for number, line in enumerate(lines, 1):
        if named.search(line) and not moved.search(line):
            yield f"{PROJECT_FILE}:{number}: still names {old}: {line.strip()}"
