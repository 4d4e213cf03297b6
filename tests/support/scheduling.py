"""Which process of a run of tests takes which files: the processors are busy, the memory suffices.

Much of what tests do is to wait: for servers, clients, processes.  So there may be more processes
than processors (`-n 4`); but a JVM has hundreds of megabytes, so no more than processors have one.
"""

import os
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

__all__ = ["FileScheduling"]

_ROOT = Path(__file__).parents[2]
_BUILT_ONCE = ("tests/real/",)  # folders whose files share what takes long to build
_MARK = "mark.spark"


def _processors() -> int:
    return len(os.sched_getaffinity(0))


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Gives each file to one process, in their order: to some of them first those with a JVM.

    The others take none of those, and end when nothing else is left.
    """

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._places: dict[str, int] = {}
        self._with_java: dict[str, bool] = {}

    def _split_scope(self, nodeid: str) -> str:
        shared = (each for each in _BUILT_ONCE if nodeid.startswith(each))
        return next(shared, super()._split_scope(nodeid))

    def _reschedule(self, node: Any) -> None:
        if self.workqueue and self._next(node) is None:
            if not node.shutting_down:
                node.shutdown()
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        scope = self._next(node)
        if scope is None:
            return
        if not self._places:
            self._places = {nodeid: place for place, nodeid in enumerate(self.collection or ())}
        unit = self.workqueue.pop(scope)
        self.assigned_work.setdefault(node, {})[scope] = unit
        left = [self._places[nodeid] for nodeid, is_done in unit.items() if not is_done]
        node.send_runtest_some(left)

    def _next(self, node: Any) -> str | None:
        """Return the first file that this process may take; None if there is none."""
        if self.nodes.index(node) < _processors():
            return next(iter(self.workqueue), None)
        return next((each for each in self.workqueue if not self._needs_java(each)), None)

    def _needs_java(self, scope: str) -> bool:
        if scope not in self._with_java:
            self._with_java[scope] = _says_spark(_ROOT / scope)
        return self._with_java[scope]


def _says_spark(path: Path) -> bool:
    """Say whether a file, or one of a folder, has tests that are marked so, or has them by name."""
    files = path.rglob("*.py") if path.is_dir() else (path,)
    return any("spark" in each.name or _MARK in each.read_text("utf-8") for each in files)
