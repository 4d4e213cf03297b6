"""Events of several threads: one stream whose times never go back."""

import itertools
import threading
from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from odfbuild.executors.runs.record import Events, RunRequest
from odfbuild.odf.timestamp import Timestamp


def test_an_event_waits_for_its_turn_before_it_reads_the_clock() -> None:
    """The first thread has read the clock and is held up; the second one comes meanwhile."""
    ticks, has_read, is_second_done = itertools.count(), threading.Event(), threading.Event()

    def clock() -> Timestamp:
        now = Timestamp.from_millis(next(ticks))
        if threading.current_thread().name == "first":
            has_read.set()
            is_second_done.wait(0.2)
        return now

    def second() -> None:
        has_read.wait()
        events.add("second")
        is_second_done.set()

    heard: list[Mapping[str, Any]] = []
    project: Any = SimpleNamespace(config=SimpleNamespace(name="p"), target="local")
    events = Events(project, RunRequest(clock=clock, heard=heard.append), steps=2)
    threads = [
        threading.Thread(target=events.add, args=("first",), name="first"),
        threading.Thread(target=second),
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each["event"] for each in heard] == ["first", "second"]
    times = [datetime.fromisoformat(each["time"]) for each in heard]
    assert times == sorted(times)
