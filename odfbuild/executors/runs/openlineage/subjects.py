"""Inputs and outputs of a step for OpenLineage: datasets and sources."""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit
from uuid import UUID

from odfbuild.executors.runs.openlineage.model import (
    LineageColumn,
    LineageDataset,
    LineageField,
    NamespacedName,
    WrittenAmount,
)
from odfbuild.lineage.ids import node_id
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, input_name
from odfbuild.odf.events import (
    AddData,
    DataField,
    ExecuteTransform,
    ExecuteTransformInput,
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    SetTransform,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.evolution.columns.derive import data_schema
from odfbuild.planner.plan import Append, Ingest, Step, Transform
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.workspace import Workspace
from odfbuild.texts.redaction import without_secrets

if TYPE_CHECKING:
    from odfbuild.planner.evolution.columns.answers import EngineColumns
    from odfbuild.sql.columns.output import ColumnRef as Used


class Subjects:
    """Describes the datasets of a workspace; `homes` are namespaces of some of them.

    `engine` is asked about queries whose columns no text tells.
    """

    def __init__(
        self,
        workspace: Workspace,
        namespace: str,
        homes: Mapping[UUID, str],
        engine: "EngineColumns | None" = None,
    ) -> None:
        self._workspace = workspace
        self._engine = engine
        self._namespace = namespace
        self._homes = homes
        self._names: dict[DatasetId, DatasetAlias] = {}

    def query(self, step: Step) -> str | None:
        """Return the SQL that a step runs."""
        from odfbuild.sql.text.steps import steps_of

        state = self._state(step.target)
        if state is None:
            return None
        sql = None
        if isinstance(step.work, Transform) and state.transform is not None:
            sql = state.transform.transform
        elif isinstance(step.work, Ingest) and state.polling is not None:
            sql = state.polling.preprocess
        if sql is None or is_opaque(sql):
            return None
        named = ((each.alias, each.text.strip()) for each in steps_of(sql))
        return ";\n".join(text if alias is None else f"-- {alias}\n{text}" for alias, text in named)

    def inputs(self, step: Step) -> tuple[LineageDataset, ...]:
        """Return what a step reads: inputs as far as they were read so far, or the source."""
        state = self._state(step.target)
        if state is None:
            return ()
        if isinstance(step.work, Ingest) and state.polling is not None:
            return (source_of(state.polling.fetch, self._namespace),)
        if isinstance(step.work, Transform) and state.transform is not None:
            read = state.progress
            ids = self._inputs(state.transform).values()
            return tuple(self._input(id, read.get(id)) for id in dict.fromkeys(ids))
        return ()

    def output(self, step: Step, *, ended: bool, before: Multihash | None) -> LineageDataset:
        """Return what a step writes; once it `ended`, with what is new after the block `before`."""
        dataset = self._workspace.open(step.target)
        state = None if dataset is None else dataset.state()
        if dataset is None or state is None:
            return LineageDataset(named=NamespacedName(self._namespace, str(step.target)))
        works = ended and isinstance(step.work, Ingest | Transform)
        return LineageDataset(
            named=self._dataset_name(dataset.id, step.target),
            source=str(dataset.id),
            block=state.head,
            columns=_columns(state),
            made=self._derived_fields(step.target, state)
            if isinstance(step.work, Transform)
            else None,
            written=_written(dataset, before, state.head) if works else None,
        )

    def head(self, step: Step) -> Multihash | None:
        """Return the last block of the dataset of a step, None if it has none yet."""
        dataset = self._workspace.open(step.target)
        return None if dataset is None else dataset.head()

    def secrets(self, step: Step, env: Mapping[str, str] = os.environ) -> tuple[str, ...]:
        """Return what must not be told of the source of a step, with the queries of its URLs."""
        from odfbuild.executors.ingest.fetch.secrets import secrets_of, texts_of

        events: tuple[object, ...] = ()
        if isinstance(step.work, Append):
            events = step.work.events
        if (state := self._state(step.target)) is not None:
            events += state.sources
        secrets = secrets_of(events, env)
        queries = [text.partition("?")[2] for _, text in texts_of(events) if "://" in text]
        return (*secrets, *queries, *(without_secrets(each, secrets) for each in queries))

    def _state(self, alias: DatasetAlias) -> ChainState | None:
        dataset = self._workspace.open(alias)
        return None if dataset is None else dataset.state()

    def _input(self, id: DatasetId, read: ExecuteTransformInput | None) -> LineageDataset:
        state = self._workspace.dataset(id).state()
        block = None if read is None else read.new_block_hash
        return LineageDataset(
            named=self._dataset_name(id),
            source=str(id),
            block=block or (None if state is None else state.head),
            columns=None if state is None else _columns(state),
        )

    def _inputs(self, transform: SetTransform) -> dict[str, DatasetId]:
        """Return the inputs of a transform by the names that its query has for them."""
        refs = ((input_name(each), each.dataset_ref) for each in transform.inputs)
        return {name: ref for name, ref in refs if isinstance(ref, DatasetId)}

    def _dataset_name(self, id: DatasetId, known: DatasetAlias | None = None) -> NamespacedName:
        alias = known or self._alias(id)
        return NamespacedName(self._homes.get(node_id(id), self._namespace), str(alias or id))

    def _alias(self, id: DatasetId) -> DatasetAlias | None:
        if id not in self._names:
            self._names = dict(self._workspace.aliases())
        return self._names.get(id)

    def _derived_fields(
        self, alias: DatasetAlias, state: ChainState
    ) -> tuple[LineageField, ...] | None:
        """Return what the query in force makes the columns of; None where that is not known."""
        if state.transform is None:
            return None
        from odfbuild.planner.evolution.columns.resolve import Resolver

        inputs = self._inputs(state.transform)
        known = {alias: state}
        for id in inputs.values():
            name, read = self._alias(id), self._workspace.dataset(id).state()
            if name is not None and read is not None:
                known[name] = read
        made = Resolver(known, {}, engine=self._engine).columns_before(alias)
        if made is None or made.columns is None or made.query is None:
            return None
        if made.query.outputs is None:
            return None

        named = {name: self._dataset_name(id) for name, id in inputs.items()}
        rows = _refs(made.query.shaping, named)
        return tuple(
            LineageField(each.name, _refs(each.sources, named), rows) for each in made.columns
        )


def source_of(fetch: FetchStep, namespace: str) -> LineageDataset:
    """Return the source of a root without anything that may be secret: no user, no query.

    `namespace` is that of the files of the project.
    """
    from odfbuild.executors.ingest.fetch.request import printable

    if is_opaque(fetch):
        return LineageDataset(named=NamespacedName("unknown", str(fetch.tag)))
    match fetch:
        case FetchStepUrl():
            url = printable(fetch.url.strip()).partition("?")[0].partition("#")[0]
            return _place(url)
        case FetchStepFilesGlob():
            known = fetch.path.startswith("/")
            named = (
                NamespacedName("file", fetch.path)
                if known
                else NamespacedName(namespace, f"file:{fetch.path}")
            )
            return LineageDataset(named=named, source=f"file:{_quoted(fetch.path)}")
        case FetchStepContainer():
            return LineageDataset(named=NamespacedName("container", fetch.image))
        case FetchStepMqtt():
            topics = ", ".join(each.path for each in fetch.topics)
            server = f"mqtt://{fetch.host}:{fetch.port}"
            return LineageDataset(named=NamespacedName(server, topics), source=_quoted(server))
        case FetchStepEthereumLogs():
            return LineageDataset(named=NamespacedName("ethereum", str(fetch.chain_id or "")))


def _refs(of: "Iterable[Used]", named: Mapping[str, NamespacedName]) -> tuple[LineageColumn, ...]:
    found = sorted((each.input, each.column) for each in of if each.input in named)
    return tuple(LineageColumn(named[name], column) for name, column in found)


def _place(url: str) -> LineageDataset:
    parts = urlsplit(url) if "${{" not in url.partition("://")[2].partition("/")[0] else None
    if parts is None or not parts.scheme or not parts.netloc:
        if url.lower().startswith("file:"):
            return LineageDataset(
                named=NamespacedName("file", url.removeprefix("file://")), source=_quoted(url)
            )
        return LineageDataset(named=NamespacedName("url", url))
    server = f"{parts.scheme}://{parts.netloc}"
    return LineageDataset(named=NamespacedName(server, parts.path or "/"), source=_quoted(url))


def _quoted(url: str) -> str:
    return quote(url, safe="/:!$&'()*+,;=%~@")


def _columns(state: ChainState) -> tuple[DataField, ...] | None:
    stored = schema_in_force(state)
    return None if stored is None else data_schema(stored, state.vocab).fields


def _written(dataset: Dataset, before: Multihash | None, head: Multihash) -> WrittenAmount:
    try:
        blocks = [block.event for _, block in dataset.blocks(before, head)]
    except NotInChainError:  # it was rewritten meanwhile
        blocks = []
    slices = [each.new_data for each in blocks if isinstance(each, AddData | ExecuteTransform)]
    found = [each for each in slices if each is not None]
    records = sum(e.offset_interval.end - e.offset_interval.start + 1 for e in found)
    return WrittenAmount(records, sum(each.size for each in found))
