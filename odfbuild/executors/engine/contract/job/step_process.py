"""The process of a job's step, which is killed once its time is over.

A query cannot be stopped from outside otherwise.  Whatever becomes of the process, the job has an
answer.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from odfbuild.executors.engine.contract.job import Answer, JobRequest
from odfbuild.executors.engine.contract.workers import Worker, WorkerEndedError
from odfbuild.executors.engine.messages import METHODS
from odfbuild.odf import messages as msg
from odfbuild.odf.wire.blocks import decode_table, encode_table

_FAILED: Final[Mapping[str, Callable[[str], Answer]]] = {
    "ExecuteRawQuery": msg.RawQueryResponseInternalError,
    "ExecuteTransform": msg.TransformResponseInternalError,
    "ExecuteStep": msg.StepResponseInternalError,
    "ExecuteIngest": msg.IngestStepResponseInternalError,
}


def step_answer(worker: Worker, request: JobRequest) -> Answer:
    """Return the answer to a request, an internal error if the process ended or took too long."""
    return asyncio.run(_answer(worker, request))


async def _answer(worker: Worker, request: JobRequest) -> Answer:
    failed = _FAILED[request.operation]
    try:
        async with asyncio.timeout(request.limit):
            data = await worker.answer(request.operation, encode_table(request.message))
    except TimeoutError:
        return failed(
            f"the step ran for {_seconds(request.limit)}, the limit of its request, and was ended; "
            "raise `limit` of the engine in odfbuild.yaml if it needs longer"
        )
    except WorkerEndedError as error:
        return failed(f"{error.what}; {error.why}; give the job more memory")
    root: Any = decode_table(METHODS[request.operation].response, data)
    await worker.close()
    return cast(Answer, root.value)


def _seconds(limit: float) -> str:
    return f"{math.floor(limit):,} s" if limit >= 1 else f"{limit:g} s"
