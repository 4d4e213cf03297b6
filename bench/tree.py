"""What a process and all below it use, sampled from /proc: nobody waits for some of them.

A JVM that a script starts and does not wait for is in no account of the script.  Times are those
last seen, so up to a sample is missing of each process.  Of memory, whose sampling takes longer the
more there is, samples are so rare that a processor has a fiftieth of its time to do with it.
"""

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["Tree", "Used", "processor_seconds"]

_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE") / 2**20
_PROC: Final = Path("/proc")
_EVERY: Final = 0.2  # seconds
_SHARE: Final = 50  # of a processor: one of so many parts is taken for samples of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Seconds of processor time, and the greatest memory in MiB.

    `memory` is that of all processes at one moment, a page that several share counted once (PSS);
    `largest` that of the largest single process, shared pages and all (RSS).
    """

    cpu: float
    memory: float
    largest: float


@dataclass(slots=True)
class Tree:
    """Watches a process and all below it, as a context."""

    root: int
    _seconds: dict[int, float] = field(default_factory=dict)
    _memory: float = 0.0
    _largest: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Tree":
        self._thread = threading.Thread(target=self._watch, name="tree", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def used(self) -> Used:
        """Return what was seen."""
        cpu = sum(self._seconds.values())
        return Used(cpu=cpu, memory=self._memory, largest=self._largest)

    def _watch(self) -> None:
        due = 0.0
        while True:
            pids = _family(self.root)
            self._seconds |= {pid: taken for pid in pids if (taken := _seconds(pid)) > 0}
            self._largest = max(0.0, self._largest, *map(_resident, pids))
            began = time.monotonic()
            if began >= due:
                self._memory = max(self._memory, sum(map(_proportional, pids)))
                due = began + _SHARE * (time.monotonic() - began)
            if self._ended.wait(_EVERY):
                return


def processor_seconds(root: int) -> float:
    """Return what a process and all that run below it have used until now."""
    return sum(map(_seconds, _family(root)))


def _family(root: int) -> list[int]:
    """Return a process and all below it."""
    found, todo = [root], [root]
    while todo:
        below = _children(todo.pop())
        found += below
        todo += below
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(_PROC / str(pid) / "task")  # noqa: PTH208
    except OSError:
        return []
    texts = (_read(f"{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for text in texts for child in text.split()]


def _seconds(pid: int) -> float:
    fields = _read(f"{pid}/stat").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK if fields else 0.0


def _resident(pid: int) -> float:
    pages = _read(f"{pid}/statm").split()[1:2]
    return int(pages[0]) * _PAGE if pages else 0.0


def _proportional(pid: int) -> float:
    lines = (line.split() for line in _read(f"{pid}/smaps_rollup").splitlines())
    return next((int(words[1]) / 1024 for words in lines if words[:1] == ["Pss:"]), 0.0)


def _read(name: str) -> str:
    """Return the text of a file of a process; none of one that ended."""
    try:
        return (_PROC / name).read_text()
    except OSError:
        return ""
