"""Whether a chain's rows came of the query that it has now."""

import pytest

from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.transform.continuity import came_of_one_query, came_of_one_text
from odfbuild.odf.chain.state import CONTINUED, RESTATE
from odfbuild.odf.events import (
    ExecuteTransform,
    MetadataEvent,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.refs import DatasetAlias

RAN = ExecuteTransform(query_inputs=())
OURS = engine_version("spark") or ""


THEIRS = engine_version("datafusion") or ""


def _asks(
    text: str, version: str | None = OURS, source: str = "a", engine: str = "spark"
) -> SetTransform:
    inputs = (TransformInput(DatasetAlias.parse(source), source),)
    steps = (SqlQueryStep(query=text),)
    return SetTransform(inputs, TransformSql(engine=engine, version=version, queries=steps))


def _datafusion(text: str, ending: str = "") -> SetTransform:
    return _asks(text, THEIRS + ending, engine="datafusion")


@pytest.mark.parametrize(
    "events",
    [
        [_asks("x")],
        [_asks("x"), RAN, RAN],
        [_asks("x"), _asks("y"), RAN],
        [_asks("x"), RAN, _asks("x", "9.9.9+odfbuild.9"), RAN],
        [_asks("x"), RAN, _asks("y", OURS + RESTATE), RAN],
        [_asks("x"), RAN, _asks("y"), RAN, _asks("x", OURS + RESTATE), RAN, RAN],
        [_asks("x"), RAN, _datafusion("x", CONTINUED), RAN],
        [_asks("x"), RAN, _datafusion("x", CONTINUED), RAN, _asks("x", OURS + CONTINUED)],
        [_asks("x"), RAN, _datafusion("x", CONTINUED), RAN, _datafusion("x"), RAN],
    ],
)
def test_one_query_made_all_rows(events: list[MetadataEvent]) -> None:
    assert came_of_one_query(events)


@pytest.mark.parametrize(
    "events",
    [
        [_asks("x"), RAN, _asks("y")],
        [_asks("x"), RAN, _asks("y"), RAN],
        [_asks("x"), RAN, _asks("y"), RAN, _asks("x"), RAN],
        [_asks("x"), RAN, _asks("x", source="b"), RAN],
        [_asks("x"), RAN, _asks("y", OURS + RESTATE)],
        [_asks("x", None), RAN],
        [_asks("x", "1.2.3"), RAN, _asks("x"), RAN],
        [_asks("x"), RAN, _datafusion("x"), RAN],
        [_asks("x"), RAN, _datafusion("y", CONTINUED), RAN],
    ],
)
def test_another_query_may_have_made_some(events: list[MetadataEvent]) -> None:
    assert not came_of_one_query(events)


def test_one_text_is_one_whatever_the_engine() -> None:
    assert came_of_one_text([_asks("x"), RAN, _datafusion("x"), RAN])
    assert not came_of_one_text([_asks("x"), RAN, _datafusion("y"), RAN])
    assert not came_of_one_text([_asks("x", None), RAN, _datafusion("x"), RAN])
