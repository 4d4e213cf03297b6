"""The columns of its inputs that a query sees: those that were there when it first ran.

An input may gain columns later.  `select *` does not take them up before the definition changes,
nor does what `*` stands for inside of a query: `select distinct *` would else find other rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from odfbuild.odf.chain import ChainState, fold
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.events import DataSchema, ExecuteTransform, TransformSql
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.planner.sql.query import steps_of
from odfbuild.state.dataset import Dataset

__all__ = ["accepted_schemas"]

_TAKES_ALL: Final = ("*", "natural")  # a text without them names every column that it takes


def accepted_schemas(
    output: Dataset, state: ChainState, inputs: Sequence[tuple[Dataset, ChainState]]
) -> Mapping[DatasetId, DataSchema]:
    """Return the schemas of inputs that gained columns which the query in force does not see.

    `state` is the output as it was before the step.  Chains are only looked through if an input
    has a column that the output lacks.
    """
    if (
        state.transform is None
        or state.transform_is_new
        or not _takes_all(state.transform.transform)
    ):
        return {}
    wider = [each for each in inputs if _has_more(each[1], state)]
    first = _first_read(output, state.head) if wider else {}
    found = {}
    for dataset, now in wider:
        block = first.get(dataset.id)
        then = None if block is None or block == now.head else dataset.state(block)
        narrower = None if then is None else _narrower(now, then)
        if narrower is not None:
            found[dataset.id] = narrower
    return found


def _takes_all(transform: TransformSql) -> bool:
    texts = [step.text.lower() for step in steps_of(transform)]
    return any(word in text for text in texts for word in _TAKES_ALL)


def _has_more(source: ChainState, output: ChainState) -> bool:
    return bool(_data_columns(source) - _data_columns(output))


def _data_columns(state: ChainState) -> frozenset[str]:
    schema, vocab = schema_in_force(state), state.vocab
    system = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    return frozenset() if schema is None else frozenset(f.name for f in schema.fields) - system


def _first_read(output: Dataset, head: Multihash) -> Mapping[DatasetId, Multihash]:
    """Return the last block of each input that the first step of the query in force had read."""
    read: dict[DatasetId, Multihash] = {}
    state: ChainState | None = None
    for name, block in output.blocks(upto=head):
        state = fold(state, block, name)
        if state.transform_is_new:
            read.clear()
        if isinstance(block.event, ExecuteTransform):
            for each in block.event.query_inputs:
                last = each.new_block_hash or each.prev_block_hash
                if last is not None:
                    read.setdefault(each.dataset_id, last)
    return read


def _narrower(now: ChainState, then: ChainState) -> DataSchema | None:
    """Return the schema of an input without what it gained; None if it gained nothing."""
    schema, known = schema_in_force(now), schema_in_force(then)
    if schema is None or known is None:
        return None
    names = {field.name for field in known.fields}
    fields = tuple(field for field in schema.fields if field.name in names)
    return None if len(fields) == len(schema.fields) else replace(schema, fields=fields)
