"""Views that are asked for: up to which block or time, as recorded or as current rows."""

from __future__ import annotations

import re
from time import time_ns
from typing import TYPE_CHECKING

from odfbuild.app.inspection.moment import moment
from odfbuild.errors import StateError, UsageRefusedError
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.merge_strategies import key_of
from odfbuild.odf.timestamp import Timestamp
from odfbuild.project.opened import Opened, find_dataset, find_name
from odfbuild.state.chain.refs import ancestry, find_block
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.data.views import DatasetView
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.events import DataSchema
    from odfbuild.odf.identity import DatasetId, Multihash
    from odfbuild.odf.refs import DatasetRef
    from odfbuild.odf.schema.value_paths import ValuePath
    from odfbuild.state.chain.dataset import Dataset

_TIME = re.compile(r"-[0-9]+[smhdw]|[0-9]{4}-[0-9]{2}-[0-9]{2}.*", re.DOTALL)
_AT = "--as-at takes a block, or the time up to which blocks count"
_OF = "--as-of takes the event time at which rows were in force"


class BeforeFirstBlockError(StateError):
    """A dataset is requested as of a time before its first block."""

    code = "before-first-block"


class NoDataError(StateError):
    """A dataset has no columns yet: its first rows determine them."""

    code = "no-data"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """What is asked for: `at` a block or time, `of` an event time; `log` for the changelog.

    `key` are columns that tell whose versions rows are, in the place of the key that is declared.
    """

    at: str | None = None
    of: str | None = None
    log: bool = False
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.log and self.of is not None:
            raise UsageRefusedError(
                what="--log and --as-of exclude each other",
                why="--as-of selects from the rows that result from the changelog",
                fix="omit one of them; --as-at goes with either",
            )
        if self.key and self.of is None:
            raise UsageRefusedError(
                what="--key without --as-of",
                why="it identifies things whose versions the rows are, one of them in force at a "
                "time",
                fix="give the time with --as-of, or omit --key",
            )


def view_of(project: Opened, name: str, asked: ViewOptions) -> DatasetView:
    """Return the rows that are asked for.

    Raises UsageRefusedError for what is no time, StateError for a dataset, block or time that is
    not there, NoDataError, LostDataError and DamagedDataError.
    """
    from odfbuild.executors.data.checks.verified_files import slice_files
    from odfbuild.executors.data.views import DatasetView

    now = Timestamp.from_millis(time_ns() // 1_000_000)
    dataset = find_dataset(project, name)
    block = dataset.head() if asked.at is None else _block(dataset, asked.at, name, now)
    state = dataset.state(block)
    schema = None if state is None else schema_in_force(state)
    if state is None or schema is None:
        raise NoDataError(
            what=f"the dataset '{find_name(project, name)}' has no rows "
            + ("yet" if asked.at is None else f"as at {asked.at}"),
            why="its first rows determine its columns",
            fix="odfbuild apply ingests data; odfbuild log shows the blocks",
        )
    alias = str(find_name(project, name))
    return DatasetView(
        paths=slice_files(dataset, block, f"the dataset '{alias}'"),
        schema=schema,
        vocab=state.vocab,
        log=asked.log,
        until=None if asked.of is None else moment(asked.of, now, why=_OF),
        key=() if asked.of is None else _key(state, schema, asked.key, alias),
        uuids=uuids_of(project, state),
    )


def _key(
    state: ChainState, schema: DataSchema, given: tuple[str, ...], name: str
) -> tuple[str, ...]:
    """Return the columns that tell whose versions rows are; none where each row is its own.

    They are those that are given, else those of the merge strategies in force at the block.
    """
    declared = dict.fromkeys(key_of(each.merge) for each in state.sources)
    if not given and len(declared) > 1:
        keys = " and ".join(", ".join(each) or "none" for each in declared)
        raise UsageRefusedError(
            what=f"the sources of '{name}' have different primary keys: {keys}",
            why="--as-of selects one version of each key, so there must be one key",
            fix="name its columns, each with --key COLUMN",
        )
    key = given or next(iter(declared), ())
    system = (state.vocab.offset_column, state.vocab.operation_type_column)
    known = [field.name for field in schema.fields if field.name not in system]
    lacking = next((column for column in key if column not in known), None)
    if lacking is not None:
        raise UsageRefusedError(
            what=f"'{name}' has no column '{lacking}' for its key",
            why="--as-of finds the versions of a row by these columns",
            fix=did_you_mean(lacking, known) or f"it has {', '.join(known)}",
        )
    return key


def is_time(text: str) -> bool:
    """Tell whether a text looks like a time, which no name of a block does."""
    return _TIME.fullmatch(text) is not None


def _block(dataset: Dataset, text: str, name: str, now: Timestamp) -> Multihash:
    if not is_time(text):
        return find_block(dataset, text)
    at, first = moment(text, now, why=_AT), None
    for hash, block in ancestry(dataset, dataset.head()):
        if block.system_time <= at:
            return hash
        first = block.system_time
    raise BeforeFirstBlockError(
        what=f"the dataset '{name}' has no block as early as {at}",
        why=f"its first one is of {first}",
        fix=f"give a later time; odfbuild log {name} shows the blocks",
    )


def uuids_of_dataset(project: Opened, dataset: DatasetId) -> frozenset[ValuePath]:
    """Return where a dataset has UUIDs as of its head; none if it has no head."""
    state = project.workspace.dataset(dataset).state()
    return frozenset() if state is None else uuids_of(project, state)


def uuids_of(project: Opened, state: ChainState) -> frozenset[ValuePath]:
    """Return where a dataset has UUIDs."""
    from odfbuild.planner.queries import uuid_columns

    def lookup(ref: DatasetRef) -> ChainState | None:
        found = project.workspace.open(ref)
        return None if found is None else found.state()

    return uuid_columns(state, lookup)
