"""An engine of merges in the place of Spark, for the tests of Spark's merges."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.datafusion.merging import ArrowMerger
from odfbuild.executors.engine.protocol import CondenseRequest, IngestRequest
from odfbuild.odf.events import MergeStrategy, Transform

Item = TypeVar("Item")
Result = TypeVar("Result")


class Merging:
    """Merges in memory, or through files where `_limit` is negative, as tests of Spark have it."""

    _limit = 0

    def held(self, merge: MergeStrategy, preprocess: Transform | None, /) -> int:
        return self._merger().held(merge, preprocess)

    def ingest(self, request: IngestRequest) -> Frame:
        return self._merger().ingest(request)

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        return self._merger().ingest_together(request, sources)

    def condense(self, request: CondenseRequest) -> tuple[Path, ...]:
        return self._merger().condense(request)

    def spread(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]:
        return self._merger().spread(function, items)

    def _merger(self) -> ArrowMerger:
        return ArrowMerger() if self._limit >= 0 else ArrowMerger(held=0, appended=0)


@pytest.fixture(scope="session")
def engine() -> Merging:
    return Merging()


@pytest.fixture(params=["in memory", "through files"])
def either_way(
    engine: Merging, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Merging:
    if request.param == "through files":
        monkeypatch.setattr(engine, "_limit", -1)
    return engine
