"""Giving up: pauses end, downloads break off, and what comes after is not concerned."""

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odfbuild.executors.ingest.fetch import http
from odfbuild.executors.ingest.fetch.download import TransientError, retry
from odfbuild.executors.ingest.fetch.request import Request, unreachable
from odfbuild.executors.process import interrupt as stopping
from odfbuild.executors.process.interrupt import (
    StoppedError,
    go_on,
    interruptible,
    killable,
    result_of,
    stop,
    stoppable,
)
from tests.support.servers.http import Page, serving


@pytest.fixture(autouse=True)
def _no_longer() -> Iterator[None]:
    with stoppable():
        yield


def test_a_pause_between_two_tries_ends_at_once() -> None:
    asked = threading.Event()

    def fail() -> None:
        asked.set()
        raise TransientError(unreachable(Request(url="x", name="x"), "it is busy"), 59.0)

    def give_up() -> None:
        asked.wait()
        stop()

    thread = threading.Thread(target=give_up)
    thread.start()
    with pytest.raises(StoppedError):
        retry(fail, lambda: 0)
    thread.join()


def test_a_download_breaks_off_and_what_came_is_kept(tmp_path: Path) -> None:
    with serving() as server:
        page = Page(body=b"x" * 3_000_000, headers={"ETag": '"1"'}, ranges=True)
        request = Request(url=server.put("/x", page), name="x")
        stop()
        with pytest.raises(StoppedError):
            http.download(request, tmp_path)


def test_what_is_started_too_late_is_killed() -> None:
    stop()
    with (
        subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) as process,
        killable(process),
    ):
        assert process.wait() == -9


def test_what_is_done_after_the_run_is_not_stopped() -> None:
    with stoppable():
        stop()
        with pytest.raises(StoppedError):
            go_on()
    go_on()
    stopping.pause(0.0)


def test_signals_that_do_not_end_a_wait_are_acted_on_in_it() -> None:
    asked = threading.Event()

    def work() -> bool:
        time.sleep(0.3)  # the main thread waits by now
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return asked.wait(timeout=20)

    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt), interruptible(asked.set):
        assert result_of(pool.submit(work))
