"""Runs of a floor through the whole of `apply`: recorded, and killed wherever a test wants it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from odfbuild import app
from odfbuild.app import apply_plan as applying
from odfbuild.executors.engine.context import Round
from odfbuild.executors.engine.spark import engine as spark
from odfbuild.executors.runs import record as recording
from odfbuild.executors.runs import scheduler
from odfbuild.executors.runs.record import RunRequest
from odfbuild.executors.runs.report import Outcome, RunReport
from odfbuild.executors.runs.scheduler import Progress
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Plan, Step
from tests.support.engines import FakeEngine
from tests.support.values.drawn import NOW, Floor

__all__ = ["Killed", "Runs"]

_TIME = NOW.nanos


class Killed(BaseException):
    """The process is gone: nobody catches it, and nothing is written after it."""


class _Killing:
    """Dies at one of the moments around each thing that a run tells."""

    def __init__(self, watched: Progress, moments: Iterator[int], at: int | None) -> None:
        self._watched, self._moments, self._at = watched, moments, at

    def started(self, step: Step) -> None:
        self._pass()
        self._watched.started(step)
        self._pass()

    def advanced(self, step: Step, done: Round) -> None:
        self._pass()
        self._watched.advanced(step, done)
        self._pass()

    def finished(self, step: Step, outcome: Outcome) -> None:
        self._pass()
        self._watched.finished(step, outcome)
        self._pass()

    def _pass(self) -> None:
        if next(self._moments) == self._at:
            raise Killed


class Runs:
    """Applies plans of floors with a clock that stands for chains and ticks for records."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.engine = FakeEngine()
        self._ticks = count()
        self._patch = patch
        patch.setattr(spark, "SparkEngine", lambda *_, **__: self.engine)
        patch.setattr(applying, "time_ns", lambda: _TIME)

    def asking(self, **more: str) -> RunRequest:
        return RunRequest(
            clock=lambda: Timestamp(_TIME + next(self._ticks) * 1_000_000),
            random=lambda: 0,
            **more,  # type: ignore[arg-type]
        )

    def apply(self, floor: Floor, plan: Plan) -> RunReport:
        """Carry out a plan to its end."""
        return app.apply(floor.opened, plan, jobs=1, settle=False, asking=self.asking())

    def moments(self, floor: Floor, plan: Plan) -> int:
        """Carry out a plan to its end; return at how many moments it could have been killed."""
        with self._killing(None) as moments:
            self.apply(floor, plan)
        return next(moments)

    def kill(self, floor: Floor, plan: Plan, at: int) -> None:
        """Carry out a plan and be killed at a moment."""
        with self._killing(at), pytest.raises(Killed):
            self.apply(floor, plan)

    @contextmanager
    def _killing(self, at: int | None) -> Iterator[Iterator[int]]:
        moments, real = count(), scheduler.run

        def run(plan: Plan, site, *, jobs, progress, settings):  # type: ignore[no-untyped-def]
            dying = _Killing(progress, moments, at)
            return real(plan, site, jobs=jobs, progress=dying, settings=settings)

        def close(record: recording.RunRecorder, *_: object, **__: object) -> None:
            if record._open is not None:
                record._open.close()

        with self._patch.context() as patch:
            patch.setattr(scheduler, "run", run)
            if at is not None:
                patch.setattr(recording.RunRecorder, "end", close)
            yield moments
