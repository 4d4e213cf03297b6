"""Which values of a dataset are UUIDs, also in structs, lists and maps.  Pure.

Chains and slices have 16 bytes for them: the data schema of ODF has no such type, and Spark, which
is an engine of the reference, refuses Parquet files that do (up to 4.0 at least).  So it is told by
the definitions in force: a column that a source declares as UUID, and one that a query takes from
such a column as it is.
"""

from collections.abc import Callable, Mapping, Sequence

from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.chain_state import ChainState
from odfbuild.odf.ddl import DdlError, uuid_paths
from odfbuild.odf.events import AddPushSource, DataSchema, DataTypeBinary, SetPollingSource
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetRef
from odfbuild.odf.value_paths import ValuePath, below, leaves
from odfbuild.planner.queries import PREPROCESS_INPUT
from odfbuild.planner.sql.query import QueryStep, steps_of

__all__ = ["copied_uuids", "uuid_columns"]

Lookup = Callable[[DatasetRef], ChainState | None]
Columns = Mapping[str, tuple[DataSchema | None, frozenset[ValuePath]]]
_STORED = frozenset({DataTypeBinary(), DataTypeBinary(16)})


def uuid_columns(state: ChainState, lookup: Lookup) -> frozenset[ValuePath]:
    """Return where a dataset has UUIDs; `lookup` gives the states of its inputs."""
    schema = schema_in_force(state)
    fields = () if schema is None else schema.fields
    stored = {path for path, kind in leaves(fields) if kind in _STORED}
    if not stored:
        return frozenset()
    if state.transform is not None:
        return _of_transform(state, lookup) & stored
    sources = [*state.push.values(), *(() if state.polling is None else (state.polling,))]
    found = [_of_source(each) for each in sources if not is_opaque(each)]
    return frozenset.intersection(*found) & stored if found else frozenset()


def copied_uuids(steps: Sequence[QueryStep], inputs: Columns) -> frozenset[ValuePath]:
    """Return where a result has UUIDs of the inputs, in columns that are copied as they are."""
    if not any(uuids for _, uuids in inputs.values()):
        return frozenset()
    from odfbuild.planner.sql.columns import columns_of

    outputs = columns_of(steps, {name: schema for name, (schema, _) in inputs.items()}).outputs
    return frozenset(
        (each.name, *path)
        for each in outputs or ()
        if each.copied and each.sources
        for path in frozenset.intersection(
            *(below(inputs[source.input][1], source.column) for source in each.sources)
        )
    )


def _of_source(source: SetPollingSource | AddPushSource) -> frozenset[ValuePath]:
    try:
        declared = uuid_paths(source.read.ddl_schema or ())
    except (AttributeError, DdlError):  # a kind of source, or a type, of a newer version
        return frozenset()
    if source.preprocess is None or not declared:
        return declared
    from odfbuild.odf.ddl import parse_ddl

    read = parse_ddl(source.read.ddl_schema or ())
    return copied_uuids(steps_of(source.preprocess), {PREPROCESS_INPUT: (read, declared)})


def _of_transform(state: ChainState, lookup: Lookup) -> frozenset[ValuePath]:
    if state.transform is None or is_opaque(state.transform.transform):
        return frozenset()
    inputs: dict[str, tuple[DataSchema | None, frozenset[ValuePath]]] = {}
    for each in state.transform.inputs:
        found = lookup(each.dataset_ref)
        uuids = frozenset[ValuePath]() if found is None else uuid_columns(found, lookup)
        schema = None if found is None else schema_in_force(found)
        inputs[each.alias or str(each.dataset_ref)] = (schema, uuids)
    return copied_uuids(steps_of(state.transform.transform), inputs)
