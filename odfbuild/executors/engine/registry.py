"""Registry of engines: the engine that a project configures."""

from typing import TYPE_CHECKING

from odfbuild.host.permissions import NotPermittedError
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from odfbuild.executors.engine.spark.engine import SparkEngine


def check_master(project: Opened) -> None:
    """Raise MasterNotPermittedError where the target's cluster may not be used."""
    try:
        project.permissions.check_master(project.spark.master)
    except NotPermittedError as error:
        error.span = project.config.places.get(f"master {project.target}")
        raise


def spark_of(project: Opened) -> "SparkEngine":
    """Return the engine, not started yet.  Raises MasterNotPermittedError."""
    from odfbuild.executors.engine.spark.engine import SparkEngine

    check_master(project)
    spark = project.spark
    return SparkEngine(
        project.workspace.cache,
        master=spark.master,
        memory=spark.memory,
        resident=spark.resident,
    )
