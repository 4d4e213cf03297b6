"""Engines that take each step in one way: by what was counted before, or by everything there is."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.schema.arrow import from_arrow

__all__ = ["Keeping", "Whole"]


@dataclass
class Whole:
    """Compares everything, as for a query of the class `whole`."""

    spark: SparkEngine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark, name)

    def transform(self, work: TransformWork) -> Frame:
        return self.spark.transform(replace(_known(work), in_full=True))


@dataclass
class Keeping:
    """Goes on from the checkpoint of the step before, wherever there is one.

    Every `forgets` steps it is lost.  It is left where the step is asked to leave it, else in a
    folder.
    """

    spark: SparkEngine
    folder: Path
    forgets: int = 0
    checkpoints: list[Path] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark, name)

    def transform(self, work: TransformWork) -> Frame:
        number = len(self.checkpoints)
        lost = not number or (self.forgets and number % self.forgets == 0)
        new = work.new_checkpoint or self.folder / f"checkpoint-{number}.parquet"
        before = None if lost else work.checkpoint or self.checkpoints[-1]
        found = self.spark.transform(replace(_known(work), checkpoint=before, new_checkpoint=new))
        assert new.is_file(), "the step left no checkpoint"
        self.checkpoints.append(new)
        return found


def _known(work: TransformWork) -> TransformWork:
    """Say which columns the output has."""
    if not work.output:
        return work
    return replace(work, in_force=from_arrow(pq.read_schema(work.output[-1])))
