"""Worker of an engine server: a process that answers one request after another.

It reads requests from its standard input and writes answers to its standard output, as frames.  A
request is the name of the operation, a zero byte and the
message.  What a request starts, such as a JVM, stays for the next one.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, cast

import pyarrow as pa

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.messages import EngineOperations, answered
from odfbuild.executors.engine.messages.file_ingest import FileIngests
from odfbuild.executors.engine.messages.provenance import MessageEngine
from odfbuild.executors.engine.protocol import (
    IngestRequest,
    Inputs,
    RawQueryWork,
    TransformWork,
    offering,
)
from odfbuild.host.frames import framed, read_frame
from odfbuild.host.json_text import parse_json
from odfbuild.odf.events import MergeStrategy, Transform
from odfbuild.project.config.engines import DEFAULT_ENGINE

_DIE_WITH_PARENT: Final = 1  # of prctl

COMMAND: Final = (sys.executable, "-P", "-m", "odfbuild.executors.engine.contract.worker")
"""How a worker is started; its argument is JSON: `cache`, `staging`, `memory`, `parent`."""


class LocalEngine(MessageEngine, Protocol):
    """What a worker asks of an engine of ours."""

    def close(self) -> None: ...


class LocalMerger(Protocol):
    """What a worker asks of what merges rows of sources."""

    def held(self, merge: MergeStrategy, preprocess: Transform | None, /) -> int: ...

    def ingest(self, request: IngestRequest) -> Frame: ...


class LocalEngines:
    """The engines of this process by the name that a query has; one starts when first named."""

    def __init__(self, cache: Path, memory: str | None) -> None:
        self._cache, self._memory = cache, memory
        self._opened: dict[str, LocalEngine] = {}

    def raw_query(self, work: RawQueryWork) -> Frame:
        return self._of(work.query.engine).raw_query(work)

    def transform(self, work: TransformWork) -> Frame:
        return self._of(work.query.transform.engine).transform(work)

    def validate(self, work: TransformWork) -> pa.Schema:
        return self._of(work.query.transform.engine).validate(work)

    def positions(self, work: TransformWork) -> Frame:
        return self._of(work.query.transform.engine).positions(work)

    def results(self, work: TransformWork, many: Sequence[Inputs]) -> Sequence[pa.Table]:
        return self._of(work.query.transform.engine).results(work, many)

    def held_of(self, engine: str, merge: MergeStrategy, preprocess: Transform | None) -> int:
        """Return how many bytes of rows of a source an engine takes in memory; see `Engine`."""
        return self._merger(engine).held(merge, preprocess)

    def merged(self, engine: str, request: IngestRequest) -> Frame:
        """Preprocess and merge rows of a source with an engine; see `Engine.ingest`."""
        merger, query = self._merger(engine), request.preprocess
        if query is None or engine == DEFAULT_ENGINE:
            return merger.ingest(request)
        work = RawQueryWork(source=request.source, query=query, staging=request.staging)
        rows = self.raw_query(work)
        return offering(merger.ingest(replace(request, source=rows)), rows)

    def close(self) -> None:
        for each in self._opened.values():
            each.close()

    def _merger(self, engine: str) -> LocalMerger:
        if engine == DEFAULT_ENGINE:
            return cast("LocalMerger", self._of(engine))
        from odfbuild.executors.engine.datafusion.merging import ArrowMerger

        return ArrowMerger()

    def _of(self, name: str) -> LocalEngine:
        """Return an engine that `ENGINES` has, which whoever asks has looked up."""
        if name not in self._opened:
            self._opened[name] = self._start(name)
        return self._opened[name]

    def _start(self, name: str) -> LocalEngine:
        if name == "datafusion":
            from odfbuild.executors.engine.datafusion.engine import DataFusionEngine

            return DataFusionEngine()
        from odfbuild.executors.engine.spark.engine import SparkEngine

        return SparkEngine(self._cache, memory=self._memory)


def main(ingests: "Callable[[LocalEngines], FileIngests] | None" = None) -> None:
    """Answer until the standard input ends, and no longer than who started it.

    `ingests` gives what reads files of sources, None where that is not done.
    """
    asked = parse_json(sys.argv[1])
    _end_with_parent(int(asked["parent"]))
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # whoever started it ends it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    with ExitStack() as ending, answers:
        engines = LocalEngines(Path(asked["cache"]), asked["memory"])
        ending.callback(engines.close)
        reading = None if ingests is None else ingests(engines)
        operations = EngineOperations(engines, Path(asked["staging"]), reading)
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            method, _, message = frame.partition(b"\0")
            answers.write(framed(answered(operations, method.decode(), message)))
            answers.flush()


def _end_with_parent(parent: int) -> None:
    """Let the kernel end this process with its parent, in the middle of a query, too.

    It does so from now on, so one that ended while this process started is looked for.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that started this one has ended")


if __name__ == "__main__":
    main()
