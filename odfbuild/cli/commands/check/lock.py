"""odfbuild lock: pin inputs of repositories, work out columns, and write the lock file."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.app.check import ask_engine, broken_datasets, examine_all, query_findings
from odfbuild.app.load_project import check_packages, load
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Check, CheckSelection
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import selected_datasets
from odfbuild.cli.commands.check.deps import pins_text
from odfbuild.cli.formats.check import datasets_text, outdated_text, schemas_text
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import ProjectErrors, UsageRefusedError
from odfbuild.executors.engine.columns import ColumnsOf
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.project.config.engines import DEFAULT_ENGINE
from odfbuild.project.lock import LOCK_FILE, Lock, LockedInput, LockedSchema, read_lock, write_lock
from odfbuild.project.lock.state import Definitions
from odfbuild.project.packages import package_differences, pin
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.odf.events import DataSchema
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.plan.remote_inputs import RemoteInput
    from odfbuild.project.load import Project


def lock(
    given: ProjectArguments,
    selection: CheckSelection = None,
    check: Check = False,
    repin: Annotated[
        list[str] | None,
        typer.Option(
            "--repin",
            metavar="REF",
            help="Pin this input again at the present head of its repository, even if that is "
            "another dataset now; may be repeated.",
        ),
    ] = None,
) -> int:
    """Write odfbuild.lock: packages, remote inputs, columns.

    Inputs that have an entry keep it; a repository is asked for the others.
    Raises ProjectErrors with all queries that are refused; then the schemas stay as they were.
    """
    project = open_given(given)
    lock = read_lock(project.root) or Lock()
    outdated = False
    if check:
        found = package_differences(project.root, project.config, lock)
        sys.stdout.write(outdated_text(found))
        outdated = bool(found)
    else:
        lock = _pin(project, lock)
    loaded = load(project)
    inputs, unpinned = _inputs(project, loaded, lock, repin or (), check=check)
    if unpinned or inputs != lock.inputs:
        outdated = True
        if not check:
            lock = replace(lock, inputs=inputs)
            write_lock(project.root, lock)
            loaded = load(project)  # where ids are now that were not known
    schemas = _schemas(project, loaded.declared, lock, selection or ())
    sys.stdout.write(schemas_text(lock.schemas, schemas))
    if schemas != lock.schemas:
        outdated = True
        if not check:
            write_lock(project.root, replace(lock, schemas=schemas))
    word = "is up to date" if not outdated else "is out of date" if check else "is written"
    sys.stdout.write(f"{LOCK_FILE}, of {datasets_text(len(schemas))}, {word}.\n")
    return exits.REFUSED if check and outdated else exits.DONE


def _pin(project: app.Opened, lock: Lock) -> Lock:
    """Pin and install what is not pinned yet as it is declared: definitions may come from it."""
    check_packages(project, project.config)
    packages = pin(project.root, project.config, lock)
    if packages == lock.packages:
        return lock
    sys.stdout.write(pins_text(lock.packages, packages))
    lock = replace(lock, packages=packages)
    write_lock(project.root, lock)
    return lock


def _inputs(
    project: app.Opened, loaded: Project, lock: Lock, repin: Sequence[str], *, check: bool
) -> tuple[Mapping[str, LockedInput], bool]:
    """Return the entries of inputs, and whether some have none, as a check leaves it."""
    given = [each for declared in loaded.declared for each in declared.remote]
    if not given and not lock.inputs and not repin:
        return lock.inputs, False
    from odfbuild.planner.plan.remote_inputs import reference_key

    wanted = {reference_key(each.ref) for each in given}
    repinned = {each.lower() if "://" not in each else each for each in repin}
    if unknown := sorted(repinned - wanted):
        raise UsageRefusedError(
            what=f"--repin {unknown[0]}: no definition reads it",
            why="pins are of inputs, by their names in definitions",
            fix=did_you_mean(unknown[0], sorted(wanted))
            or "give an input that comes from a repository",
        )
    kept = {
        key: lock.inputs[key] for key in sorted(wanted & lock.inputs.keys()) if key not in repinned
    }
    missing = [each for each in given if reference_key(each.ref) not in kept]
    found = dict(kept)
    if missing and not check:
        found |= _pinned_inputs(project, loaded, missing, repinned)
    for key in sorted(lock.inputs.keys() - wanted):
        sys.stdout.write(f"  - {printable(key)}: no definition reads it\n")
    for key in sorted({reference_key(each.ref) for each in missing}):
        pin = found.get(key)
        told = "not pinned" if pin is None else f"{pin.id} at {pin.head.short()}"
        sys.stdout.write(f"  + {printable(key)}: {told}\n")
    return found, any(reference_key(each.ref) not in found for each in missing)


def _pinned_inputs(
    project: app.Opened, loaded: Project, missing: Sequence[RemoteInput], repinned: Collection[str]
) -> Mapping[str, LockedInput]:
    from odfbuild.app.plan.remote_inputs import barred_readers, look_up_inputs

    states = project.workspace.states()
    looked = look_up_inputs(project, loaded, states, "look", among=missing, repinned=repinned)
    wrong = barred_readers(loaded, looked)
    if wrong:
        raise ProjectErrors([found for error in wrong.values() for found in error.diagnostics()])
    return looked.pins


@dataclass(frozen=True, slots=True)
class _Known:
    """What a lock file knows already, for the engine that is installed."""

    lock: Lock
    definitions: Definitions
    version: str

    def __call__(self, alias: DatasetAlias, inputs: str) -> DataSchema | None:
        each = self.definitions.declared[alias].alias
        entry = self.lock.schemas.get(str(each))
        if entry is None or entry.engine != self.version:
            return None
        return self.lock.schema_of(each, self.definitions.definition(alias), inputs)


def _schemas(
    project: app.Opened, declared: Sequence[Declared], lock: Lock, selectors: Sequence[str]
) -> Mapping[str, LockedSchema]:
    """Return the schemas to be locked; what is not selected stays as it was."""
    wanted = selected_datasets(project, declared, selectors)
    texts = query_findings(declared, examine_all(declared))
    found = [problem for each in texts.values() for problem in each]
    states = project.workspace.states()
    names = {state.dataset: alias for alias, state in states.items()}
    definitions = Definitions(declared, names)
    version = engine_version(DEFAULT_ENGINE) or ""
    schemas = dict(lock.schemas) if selectors else {}
    with ask_engine(project) as asker:
        columns = ColumnsOf(
            definitions,
            asker,
            known=_Known(lock, definitions, version),
            existing=states.get,
            broken=broken_datasets(texts),
            static=True,
        )
        for each in declared:
            if each.alias in wanted:
                found += columns(each.alias).found
                entry = _entry(definitions, columns, each.alias, version)
                schemas[str(each.alias)] = _schema_to_keep(lock.schemas.get(str(each.alias)), entry)
    if found:
        raise ProjectErrors(found)
    return schemas


def _entry(
    definitions: Definitions, columns: ColumnsOf, alias: DatasetAlias, version: str
) -> LockedSchema:
    answer = columns(alias)
    return LockedSchema(
        definition=definitions.definition(alias),
        inputs=columns.inputs_hash(alias),
        engine=version,
        columns=answer.lines or (),
        unknown=answer.unknown,
    )


def _schema_to_keep(before: LockedSchema | None, now: LockedSchema) -> LockedSchema:
    """Keep an entry that says the same, and one that was known where data is and is not here."""
    if before is None or (before.definition, before.inputs) != (now.definition, now.inputs):
        return now
    same = (before.columns, before.unknown) == (now.columns, now.unknown)
    return before if same or now.unknown is not None else now
