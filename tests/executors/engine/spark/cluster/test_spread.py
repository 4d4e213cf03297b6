"""Python tasks on Spark: results in order, errors as they were, ended when the run is."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

import odfbuild
from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.seal import NullValuesError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.session import InterruptedStepError

pytestmark = pytest.mark.spark


def whereabouts(number: int) -> tuple[int, str, str, int]:
    return number, sys.executable, odfbuild.__file__, os.getpid()


def refuse_odd(number: int) -> int:
    if number % 2:
        raise NullValuesError(f"column_{number}", number)
    return number


def break_down(number: int) -> int:
    raise OSError(28, f"no room for {number}")


def wait(mark: Path) -> None:
    mark.write_text(str(os.getpid()), "utf-8")
    time.sleep(300)


def test_results_come_in_order_from_processes_with_this_interpreter(engine: SparkEngine) -> None:
    told = engine.spread(whereabouts, range(5))
    assert [number for number, *_ in told] == list(range(5))
    assert {(python, package) for _, python, package, _ in told} == {
        (sys.executable, odfbuild.__file__)
    }
    assert os.getpid() not in {pid for *_, pid in told}


def test_the_first_error_comes_back_as_it_was_raised(engine: SparkEngine) -> None:
    with pytest.raises(NullValuesError) as caught:
        engine.spread(refuse_odd, [0, 2, 7, 9])
    there = NullValuesError("column_7", 7)
    assert (caught.value.column, caught.value.count) == ("column_7", 7)
    assert caught.value.diagnostics() == there.diagnostics()
    assert str(caught.value) == str(there)


def test_any_other_error_is_told_in_words(engine: SparkEngine) -> None:
    with pytest.raises(EngineFailedError, match="a task of Spark failed") as caught:
        engine.spread(break_down, [1, 2])
    assert caught.value.why == "OSError: [Errno 28] no room for 1"


def test_tasks_end_when_the_run_is_given_up(engine: SparkEngine, tmp_path: Path) -> None:
    engine.spread(refuse_odd, [0])  # the JVM is there
    marks = [tmp_path / "0", tmp_path / "1"]
    with SparkEngine(tmp_path / "jvm", cores=2) as other:
        stopping = threading.Thread(target=_stop_when_there, args=(other, marks))
        stopping.start()
        with pytest.raises(InterruptedStepError):
            other.spread(wait, marks)
        stopping.join()
    pids = [int(mark.read_text("utf-8")) for mark in marks]
    until = time.monotonic() + 60
    while any(map(_runs, pids)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(_runs, pids))


def _stop_when_there(engine: SparkEngine, marks: list[Path]) -> None:
    while not all(mark.exists() and mark.read_text("utf-8") for mark in marks):
        time.sleep(0.05)
    engine.cancel()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
