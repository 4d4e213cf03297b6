"""Published manifests: each of their Spark queries is read, and its columns are known."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from odfbuild.odf.events import AddPushSource, SetPollingSource, SetTransform, TransformSql
from odfbuild.planner.queries import PREPROCESS_INPUT
from odfbuild.project.read import read_manifests
from odfbuild.project.upgrade import upgrade
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.analysis.facts import examine
from odfbuild.sql.columns import columns_of
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.steps import QueryStep, steps_of
from tests.support.projects import REPOSITORY

SHARED = Path(os.environ.get("ODFBUILD_MANIFESTS") or REPOSITORY.parent / "shared")
REAL = sorted(SHARED.glob("manifests*/**/*.yaml"))


@dataclass(frozen=True, slots=True)
class Published:
    """A query of a manifest, with the names that it can read."""

    path: Path
    steps: tuple[QueryStep, ...]
    inputs: tuple[str, ...]


def published() -> Iterator[Published]:
    for path in REAL:
        for declared in read_manifests(upgrade(path.read_text("utf-8"), "a").text, "a").declared:
            for event in declared.snapshot.metadata:
                match event:
                    case SetTransform(transform=transform, inputs=inputs):
                        names = tuple(each.alias or str(each.dataset_ref) for each in inputs)
                    case SetPollingSource(preprocess=TransformSql() as transform):
                        names = (PREPROCESS_INPUT,)
                    case AddPushSource(preprocess=TransformSql() as transform):
                        names = (PREPROCESS_INPUT,)
                    case _:
                        continue
                if transform.engine == "spark":
                    yield Published(path, steps_of(transform), names)


@pytest.mark.skipif(not REAL, reason="the published manifests are not in ../shared")
def test_every_spark_query_is_read() -> None:
    found = list(published())
    assert len(found) >= 10
    for each in found:
        facts = examine(each.steps, each.inputs)
        for finding in facts.about(Reason.SYNTAX):
            text = each.steps[finding.step].text
            told = text[finding.place.start :][: finding.place.length]
            pytest.fail(f"{each.path}: {finding.name} at {told!r}")


@pytest.mark.skipif(not REAL, reason="the published manifests are not in ../shared")
def test_what_comes_out_of_published_queries_is_known_without_schemas() -> None:
    for each in published():
        inputs = dict.fromkeys(each.inputs)
        columns, kind = columns_of(each.steps, inputs), query_class(each.steps, inputs)
        assert columns.outputs or columns.unknown, each.path
        assert columns.unknown_columns == (), each.path
        assert kind.name in {"linear", "join", "keyed", "state", "whole"}
