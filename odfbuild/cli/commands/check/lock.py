"""odfbuild lock: work out the columns of datasets, and write them into the lock file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odfbuild.app.check import ENGINE, ask_engine, broken_datasets, examine_all, query_findings
from odfbuild.app.load_project import check_packages, load
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Check, CheckSelection
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import chosen
from odfbuild.cli.commands.check.deps import pins_text
from odfbuild.cli.formats.check import datasets_text, outdated_text, schemas_text
from odfbuild.errors import ProjectErrors
from odfbuild.executors.engine.columns import ColumnsOf
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.project.lock import LOCK_FILE, Lock, LockedSchema, read_lock, write_lock
from odfbuild.project.lock.state import Definitions
from odfbuild.project.packages import package_differences, pin

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.odf.events import DataSchema
    from odfbuild.odf.refs import DatasetAlias


def lock(
    given: ProjectArguments,
    selection: CheckSelection = None,
    check: Check = False,
) -> int:
    """Write odfbuild.lock: revisions and hashes of packages, the columns of every dataset.

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
        lock = _pinned(project, lock)
    schemas = _schemas(project, lock, selection or ())
    sys.stdout.write(schemas_text(lock.schemas, schemas))
    if schemas != lock.schemas:
        outdated = True
        if not check:
            write_lock(project.root, replace(lock, schemas=schemas))
    word = "is up to date" if not outdated else "is out of date" if check else "is written"
    sys.stdout.write(f"{LOCK_FILE} {word}: {datasets_text(len(schemas))}.\n")
    return exits.REFUSED if check and outdated else exits.DONE


def _pinned(project: app.Opened, lock: Lock) -> Lock:
    """Pin and install what is not pinned yet as it is declared: definitions may come from it."""
    check_packages(project, project.config)
    packages = pin(project.root, project.config, lock)
    if packages == lock.packages:
        return lock
    sys.stdout.write(pins_text(lock.packages, packages))
    lock = replace(lock, packages=packages)
    write_lock(project.root, lock)
    return lock


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
    project: app.Opened, lock: Lock, selectors: Sequence[str]
) -> Mapping[str, LockedSchema]:
    """Return the schemas to be locked; what is not selected stays as it was."""
    declared = load(project).declared
    wanted = chosen(project, declared, selectors)
    texts = query_findings(declared, examine_all(declared))
    found = [problem for each in texts.values() for problem in each]
    states = project.workspace.states()
    names = {state.dataset: alias for alias, state in states.items()}
    definitions = Definitions(declared, names)
    version = engine_version(ENGINE) or ""
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
                schemas[str(each.alias)] = _kept(lock.schemas.get(str(each.alias)), entry)
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


def _kept(before: LockedSchema | None, now: LockedSchema) -> LockedSchema:
    """Keep an entry that says the same, and one that was known where data is and is not here."""
    if before is None or (before.definition, before.inputs) != (now.definition, now.inputs):
        return now
    same = (before.columns, before.unknown) == (now.columns, now.unknown)
    return before if same or now.unknown is not None else now
