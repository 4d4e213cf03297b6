"""The engine as a project sets it up."""

from typing import TYPE_CHECKING

from odfbuild.app.opened import Opened

if TYPE_CHECKING:
    from odfbuild.executors.spark.engine import SparkEngine

__all__ = ["spark_of"]


def spark_of(project: Opened) -> "SparkEngine":
    """Return the engine, not started yet."""
    from odfbuild.executors.spark.engine import SparkEngine

    spark = project.spark
    return SparkEngine(
        project.workspace.cache,
        master=spark.master,
        memory=spark.memory,
        resident=spark.resident,
    )
