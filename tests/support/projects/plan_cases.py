"""The golden plans: small projects, what each is compared with, and what `odfbuild plan` says.

A case is a folder.  `project` is the project as it is.  `before`, if there is one, is the project
as it was: the plan compares with it as with a revision of git, unless there is `chains.yaml`, too.
Then `before` was applied, and `chains.yaml` says what came into its chains since, by dataset:

    - schema: [t DATE NOT NULL, v BIGINT]  the data columns
    - rows: 3                              one slice, with `watermark` and `file` (the last read)
    - rows: 2                              of a derivative: the last offset that was read of each
      read: {acme.src: 2}
    - columns: [t DATE NOT NULL]           its source is read with these columns from now on
    - engine: datafusion                   its query was for another engine; `query` may be another

`hub` is a project in the same way, with its own `chains.yaml`: its datasets, each of which is
called `hub.<account>/<name>`, are in the repository `hub`, as `<account>/<name>`.

`options.txt` has more words of the command line, one a line.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from odfbuild.executors.ingest.fetch.local import ETAG
from odfbuild.odf.events import (
    AddData,
    DataSchema,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataEvent,
    ReadStepCsv,
    SetDataSchema,
    SourceState,
    SqlQueryStep,
)
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.columns import system_fields
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import encode_block
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import diff
from odfbuild.project.git.revision import Revision
from odfbuild.project.load import load_project
from odfbuild.project.yaml import read_documents
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.workspace import Workspace
from tests.planner.builders import Chain, dataset_id, slice_of

__all__ = ["ENGINE", "HUB", "PLANS", "Case", "as_revision", "cases", "lay_chains", "lay_hub"]

PLANS = Path(__file__).parents[2] / "golden" / "plans"
ENGINE = "4.2.0+odfbuild.1"
HUB = "file:///hub/"  # stands for the folder of the repository


@dataclass(frozen=True, slots=True)
class Case:
    """One folder of `tests/golden/plans`."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def before(self) -> Path:
        return self.folder / "before"

    @property
    def chains(self) -> Path:
        return self.folder / "chains.yaml"

    @property
    def hub(self) -> Path:
        return self.folder / "hub"

    @property
    def options(self) -> tuple[str, ...]:
        """Return the words of the command line after `odfbuild plan`."""
        path = self.folder / "options.txt"
        given = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        compared = self.before.is_dir() and not self.chains.exists()
        return (*(("--against", "git:before") if compared else ()), *given)

    @property
    def code(self) -> int:
        """Return the exit code that is expected."""
        path = self.folder / "code.txt"
        return int(path.read_text("ascii")) if path.exists() else 0

    @property
    def makes_a_plan(self) -> bool:
        """Say whether there is a plan, perhaps one that the gate refuses."""
        return self.code in (0, 3)


def cases() -> tuple[Case, ...]:
    """Return every case, by name."""
    return tuple(Case(each) for each in sorted(PLANS.iterdir()) if each.is_dir())


@contextmanager
def as_revision(root: Path, _: str) -> Iterator[Revision]:
    """Give the folder beside a project as a revision of it."""
    yield Revision(root.parent / "before", "0" * 40)


def lay_hub(case: Case, folder: Path) -> None:
    """Write the repository of a case into a folder, by the names that its datasets have there."""
    workspace = folder / ".workspace"
    _lay(case.hub, case.hub / "chains.yaml", workspace)
    for alias, id in Workspace(workspace).names().items():
        place = folder / str(alias).removeprefix("hub.")
        place.parent.mkdir(parents=True, exist_ok=True)
        (workspace / "datasets" / id.multibase).rename(place)


def lay_chains(case: Case, workspace: Path) -> None:
    """Write the chains of a case, with ids that are made of the names."""
    _lay(case.before, case.chains, workspace)


def _lay(project: Path, given: Path, workspace: Path) -> None:
    (document,) = read_documents(given.read_text("utf-8"), "chains.yaml")
    assert isinstance(document.value, dict)
    chains = _chains(load_project(project).declared, document.value)
    store = Workspace(workspace)
    for alias, chain in chains.items():
        dataset = store.make_room(chain.state.dataset)
        dataset.stores.blocks.put({hash: encode_block(block) for hash, block in chain.blocks})
        dataset.stores.heads.swap(HEAD, expected=None, new=chain.state.head)
        store.name(alias, chain.state.dataset)


def _chains(declared: Sequence[Declared], given: Mapping[str, Any]) -> Mapping[DatasetAlias, Chain]:
    chains: dict[DatasetAlias, Chain] = {}

    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return dataset_id(str(ref)) if ref in chains else ref

    for each in declared:
        events = [c.event for c in diff(each.snapshot, None, resolve, {"spark": ENGINE})]
        chain = Chain(str(each.alias), each.snapshot.kind, events)
        chains[each.alias] = chain
        for step in given.get(str(each.alias), []):
            chain.add(_event(chain, chains, step))
    return chains


def _event(
    chain: Chain, chains: Mapping[DatasetAlias, Chain], step: Mapping[str, Any]
) -> MetadataEvent:
    if "engine" in step:
        transform = chain.state.transform
        assert transform is not None
        query = replace(transform.transform, engine=step["engine"], version="50.0.0")
        if "query" in step:
            query = replace(query, queries=(SqlQueryStep(query=step["query"]),))
        return replace(transform, transform=query)
    if "columns" in step:
        polling = chain.state.polling
        assert polling is not None
        assert isinstance(polling.read, ReadStepCsv)
        return replace(polling, read=replace(polling.read, ddl_schema=tuple(step["columns"])))
    if "schema" in step:
        return SetDataSchema(schema=_stored(chain, parse_ddl(step["schema"])))
    state, rows, mark = chain.state, step["rows"], step.get("watermark")
    start = state.next_offset
    added = AddData(
        prev_offset=state.last_offset,
        new_data=slice_of(start, start + rows - 1) if rows else None,
        new_watermark=state.watermark if mark is None else Timestamp.parse(mark),
    )
    if "read" in step:
        reads = [_read(chain, chains, name, offset) for name, offset in step["read"].items()]
        return ExecuteTransform(
            query_inputs=tuple(reads),
            prev_offset=added.prev_offset,
            new_data=added.new_data,
            new_watermark=added.new_watermark,
        )
    if "file" in step:
        return replace(added, new_source_state=SourceState("default", ETAG, step["file"]))
    return added


def _read(
    chain: Chain, chains: Mapping[DatasetAlias, Chain], name: str, offset: int
) -> ExecuteTransformInput:
    source = chains[DatasetAlias.parse(name)].state
    before = chain.state.progress.get(source.dataset)
    is_rewritten = offset >= source.next_offset  # of a chain that was longer once
    return ExecuteTransformInput(
        dataset_id=source.dataset,
        prev_block_hash=None if before is None else source.head,
        new_block_hash=sha3_256(b"rewritten") if is_rewritten else source.head,
        prev_offset=None if before is None else before.new_offset,
        new_offset=offset,
    )


def _stored(chain: Chain, schema: DataSchema) -> DataSchema:
    """Put the system columns before the data columns."""
    vocab = chain.state.vocab
    times = [each.type for each in schema.fields if each.name == vocab.event_time_column]
    data = [each for each in schema.fields if each.name != vocab.event_time_column]
    return DataSchema((*system_fields(vocab, *times), *data))
