"""Put a question to the engine of a project: it is started for it, and stopped after it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from odfbuild.app.engines import spark_of
from odfbuild.app.opened import Opened
from odfbuild.errors import EngineFailedError
from odfbuild.executors.frames import Frame
from odfbuild.executors.querying import Querier, QueryRequest
from odfbuild.executors.views import DatasetView

__all__ = ["answered"]


@contextmanager
def answered(
    project: Opened, text: str, views: Mapping[str, DatasetView], limit: int | None
) -> Iterator[Frame]:
    """Yield the answer to one SELECT over views by name; it is there as long as the context is.

    Raises as `Querier` does; and KeyboardInterrupt when Spark was interrupted first, as nothing
    else ends a question.
    """
    with project.workspace.staging() as staging:
        request = QueryRequest(text=text, views=views, staging=staging, limit=limit)
        engine: Querier = spark_of(project)
        try:
            frame = engine.query(request)
        except EngineFailedError as error:
            from odfbuild.executors.spark.session import InterruptedStepError

            if isinstance(error, InterruptedStepError):
                raise KeyboardInterrupt from None
            raise
        finally:
            engine.close()
        yield frame
