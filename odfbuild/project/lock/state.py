"""Validity of a lock file for the current project: by hashes, without any engine.

An entry holds as long as the definition is the one that it was made for, as far as columns depend
on it, and the columns of every input are the ones that the lock file gives for them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from odfbuild.odf.chain.state import input_name, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    DataSchema,
    DatasetVocabulary,
    MetadataEvent,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import ColumnLineError, read_columns
from odfbuild.planner.declared import Declared
from odfbuild.project.lock import Lock
from odfbuild.values import dataclass

Columns = Callable[[DatasetAlias], tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class LockDifference:
    """One thing in which a lock file is out of date.

    `kind` is one of missing, extra, definition, inputs, columns, package; `was` and `now` are
    texts, where there are any to show.
    """

    kind: str
    name: str
    was: str | None = None
    now: str | None = None


class Definitions:
    """The declared datasets, and hashes of what their columns depend on; worked out when asked.

    `names` are the datasets of the workspace by id, since inputs may be referred to by that.
    """

    def __init__(
        self, declared: Sequence[Declared], names: Mapping[DatasetId, DatasetAlias] | None = None
    ) -> None:
        self.declared = {each.alias: each for each in declared}
        self._names = names or {}
        self._hashes: dict[DatasetAlias, str] = {}
        self._inputs: dict[DatasetAlias, tuple[tuple[str, DatasetAlias | None], ...]] = {}

    def definition(self, alias: DatasetAlias) -> str:
        """Return the hash of a definition, as far as columns depend on it."""
        if alias not in self._hashes:
            self._hashes[alias] = definition_hash(self.declared[alias])
        return self._hashes[alias]

    def inputs(self, alias: DatasetAlias) -> tuple[tuple[str, DatasetAlias | None], ...]:
        """Return the inputs of a dataset: as the query calls each, and what dataset it is."""
        if alias not in self._inputs:
            self._inputs[alias] = tuple(
                (input_name(source), self._alias(source.dataset_ref))
                for event in self.declared[alias].snapshot.metadata
                if isinstance(event, SetTransform)
                for source in event.inputs
            )
        return self._inputs[alias]

    def inputs_hash(self, alias: DatasetAlias, columns: Columns) -> str:
        """Return the hash of the inputs of a dataset, given the columns of each as lines.

        None stands for columns that are not known; those of datasets that are not declared are
        never part of it, as they are not the project's to say.
        """
        form: list[Any] = []
        for name, source in self.inputs(alias):
            known = None if source is None else self.declared.get(source)
            if known is None:
                form.append([name, None, None])
            else:
                vocab = to_mapping(self.vocabulary(known.alias))
                form.append([name, columns(known.alias), vocab])
        return _hash(form)

    def vocabulary(self, alias: DatasetAlias) -> DatasetVocabulary:
        """Return the names of the system columns that a definition asks for."""
        events = self.declared[alias].snapshot.metadata
        given = next((event for event in events if isinstance(event, SetVocab)), None)
        return vocabulary(given or SetVocab())

    def _alias(self, ref: DatasetAlias | DatasetId) -> DatasetAlias | None:
        return ref if isinstance(ref, DatasetAlias) else self._names.get(ref)


class LockedSchemas(Mapping[DatasetAlias, DataSchema]):
    """The data columns that a lock file knows and that still hold; each looked at when asked for.

    An entry does not hold when one that it was worked out from does not.
    """

    def __init__(self, lock: Lock | None, definitions: Definitions) -> None:
        self._lock = lock or Lock()
        self._definitions = definitions
        self._found: dict[DatasetAlias, DataSchema | None] = {}

    def __getitem__(self, alias: DatasetAlias) -> DataSchema:
        found = self._look(alias)
        if found is None:
            raise KeyError(alias)
        return found

    def __contains__(self, alias: object) -> bool:
        return isinstance(alias, DatasetAlias) and self._look(alias) is not None

    def __iter__(self) -> Iterator[DatasetAlias]:
        return (alias for alias in self._definitions.declared if alias in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _look(self, alias: DatasetAlias) -> DataSchema | None:
        """Look at what it depends on first, without recursion: chains of datasets can be long."""
        waiting = [alias]
        while waiting:
            each = waiting[-1]
            if each in self._found or each not in self._definitions.declared:
                waiting.pop()
                continue
            below = [s for s in self._sources(each) if s not in self._found and s not in waiting]
            if below:
                waiting += below
                continue
            self._found[waiting.pop()] = self._schema(each)
        return self._found.get(alias)

    def _sources(self, alias: DatasetAlias) -> list[DatasetAlias]:
        known = self._definitions.declared
        sources = [source for _, source in self._definitions.inputs(alias)]
        return [source for source in sources if source is not None and source in known]

    def _schema(self, alias: DatasetAlias) -> DataSchema | None:
        if not self._lock.schemas or any(self._found.get(s) is None for s in self._sources(alias)):
            return None
        return self._lock.schema_of(
            self._definitions.declared[alias].alias,
            self._definitions.definition(alias),
            self._definitions.inputs_hash(alias, lambda source: _lines(self._lock, source)),
        )


def definition_hash(declared: Declared) -> str:
    """Return the hash of what the columns of a dataset depend on in its own definition.

    Descriptions, licences, attachments, and where a source is fetched from are no part of it.
    """
    form = [declared.snapshot.kind.value]
    form += [part for event in declared.snapshot.metadata for part in _parts(event)]
    return _hash(form)


def differences(lock: Lock | None, definitions: Definitions) -> tuple[LockDifference, ...]:
    """Return in what the schemas of a lock file are out of date, sorted by dataset."""
    known = {} if lock is None else lock.schemas
    declared = {str(each.alias): alias for alias, each in definitions.declared.items()}
    found = [LockDifference("extra", name) for name in known if name not in declared]
    for name, alias in declared.items():
        found += _differences(lock or Lock(), definitions, name, alias)
    return tuple(sorted(found, key=lambda each: (each.name, each.kind)))


def _differences(
    lock: Lock, definitions: Definitions, name: str, alias: DatasetAlias
) -> Iterator[LockDifference]:
    entry = lock.schemas.get(name)
    if entry is None:
        yield LockDifference("missing", name)
        return
    now = definitions.definition(alias)
    if entry.definition != now:
        yield LockDifference("definition", name, entry.definition, now)
    now = definitions.inputs_hash(alias, lambda source: _lines(lock, source))
    if entry.inputs != now:
        yield LockDifference("inputs", name, entry.inputs, now)
    try:
        read_columns(entry.columns)
    except ColumnLineError as error:
        yield LockDifference("columns", name, now=str(error))


def _lines(lock: Lock, alias: DatasetAlias) -> tuple[str, ...] | None:
    entry = lock.schemas.get(str(alias))
    return None if entry is None or entry.unknown is not None else entry.columns


def _parts(event: MetadataEvent) -> Iterator[Any]:
    kind = type(event).__name__
    match event:
        case SetVocab() | SetDataSchema():
            yield [kind, to_mapping(event)]
        case SetTransform():
            inputs = [[each.alias, str(each.dataset_ref)] for each in event.inputs]
            yield [kind, inputs, _without_version(event.transform)]
        case SetPollingSource() | AddPushSource():
            query = None if event.preprocess is None else _without_version(event.preprocess)
            yield [kind, _columns_read(event.read), query, to_mapping(event.merge)]


def _columns_read(step: Any) -> Any:
    """Return what a read step says of columns: without a schema, all that they are inferred by."""
    if any(opaque_parts(step)) or not (step.schema or step.ddl_schema):
        return to_mapping(step)
    schema = None if step.schema is None else to_mapping(step.schema)
    return [type(step).__name__, step.ddl_schema, schema]


def _without_version(transform: Any) -> Any:
    if isinstance(transform, TransformSql) and not any(opaque_parts(transform)):
        transform = replace(transform, version=None)
    return to_mapping(transform)


def _hash(form: Any) -> str:
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(sha3_256(text.encode("utf-8", "surrogatepass")))
