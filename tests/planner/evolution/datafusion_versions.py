"""Projects whose queries are for DataFusion, and the engine itself, asked about their columns."""

from collections.abc import Sequence
from dataclasses import replace

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.slice_schema import slice_schema
from odfbuild.executors.engine.analysis import AnalysedInput, Analysis
from odfbuild.executors.engine.columns import data_schema, full_schema
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.odf.events import (
    DataSchema,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.columns.answers import QueryInput
from odfbuild.planner.evolution.columns.derive import Makes
from odfbuild.sql.text.steps import steps_of

__all__ = ["answer", "for_datafusion"]


def for_datafusion(project: Sequence[Declared]) -> tuple[Declared, ...]:
    """Return the same project with all queries for Spark for DataFusion instead."""
    return tuple(
        replace(
            each,
            snapshot=replace(each.snapshot, metadata=tuple(map(_event, each.snapshot.metadata))),
        )
        for each in project
    )


def _event(event: MetadataEvent) -> MetadataEvent:
    if isinstance(event, SetTransform) and isinstance(event.transform, TransformSql):
        return replace(event, transform=_of_engine(event.transform))
    if isinstance(event, SetPollingSource) and isinstance(event.preprocess, TransformSql):
        return replace(event, preprocess=_of_engine(event.preprocess))
    return event


def _of_engine(query: TransformSql) -> TransformSql:
    if query.engine != "spark":
        return query
    steps = query.queries
    return replace(
        query,
        engine="datafusion",
        query=query.query and _in_double_quotes(query.query),
        queries=steps and tuple(replace(e, query=_in_double_quotes(e.query)) for e in steps),
    )


def _in_double_quotes(text: str) -> str:
    return text.replace("`", '"')


def answer(makes: Makes, inputs: Sequence[QueryInput]) -> DataSchema | None:
    """Return what DataFusion says of the columns of a definition; see `EngineColumns`."""
    source, transform = makes.source, makes.transform
    query = source.preprocess if source is not None else transform and transform.transform
    assert isinstance(query, TransformSql)
    seen = tuple(
        AnalysedInput(
            each.name,
            each.schema if source is not None else full_schema(each.schema, each.vocab),
            each.vocab,
        )
        for each in inputs
    )
    question = Analysis(
        steps=steps_of(query), inputs=seen, vocab=makes.vocab, preprocesses=source is not None
    )
    try:
        found = DataFusionEngine().analyse(question)
    except OdfBuildError:
        return None
    if source is not None:
        return from_arrow(found)
    return data_schema(slice_schema(found, makes.vocab, None), makes.vocab)
