"""Commands in processes of their own at the price of a fork: what they import exists already.

`python -m tests.support.process.children [sparkless]` reads jobs, a line of JSON each, and answers
each with the job's number and the exit code.  It has one thread, and imports what its children had
to: so they start where a new process does, and the first of a kind alone takes as long.
"""

import atexit
import contextlib
import gc
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.projects import REPOSITORY, Done

__all__ = ["Children", "run_to_end"]

_NOT_LEARNT = ("__main__", "__mp_main__", "pyspark", "py4j")


class Children:
    """Runs of odfbuild, with the engine of the tests in the place of Spark if it is `sparkless`."""

    def __init__(self, *, sparkless: bool) -> None:
        self._sparkless = sparkless
        self._process: subprocess.Popen[str] | None = None
        self._numbers = itertools.count()
        atexit.register(self.close)

    def run(self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Done:
        """Run one command to its end."""
        with tempfile.TemporaryDirectory(prefix="odfbuild-child-") as name:
            said = [Path(name) / each for each in ("out", "err")]
            job = {
                "number": next(self._numbers),
                "arguments": list(arguments),
                "cwd": str(cwd),
                "environment": dict(environment),
                "said": [str(each) for each in said],
                "umask": _umask(),
            }
            try:
                code = self._ask(job)
            except BaseException:  # such as the end of a test's time: the next one starts over
                self.close()
                raise
            out, err = (each.read_text("utf-8") for each in said)
            return Done(code, out, err)

    def close(self) -> None:
        """End the process that is forked."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _ask(self, job: Mapping[str, Any]) -> int:
        process = self._process = self._process or _started(sparkless=self._sparkless)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        number, code = map(int, process.stdout.readline().split())
        assert number == job["number"]
        return code


def _started(*, sparkless: bool) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.process.children", *["sparkless"] * sparkless],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


# in the process that is forked


def _serve() -> None:
    known = set(sys.modules)
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _run(job, writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as names:
            seen = names.read().split()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for name in seen:
            if name not in known and not name.startswith(_NOT_LEARNT):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        known.update(seen)
        gc.freeze()
        print(job["number"], code, flush=True)


def run_to_end(arguments: Sequence[str]) -> int:
    """Run a command as the only work of this process; return its exit code, 70 for an exception."""
    from odfbuild.cli.main import main

    sys.argv = ["odfbuild", *arguments]
    code = 70
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for each in threading.enumerate():
        if each is not threading.current_thread() and not each.daemon:
            each.join()
    return code


def _run(job: dict[str, Any], names: int) -> None:
    """Be a process that runs one command."""
    os.umask(job["umask"])
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["cwd"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    files = [os.open(each, os.O_WRONLY | os.O_CREAT, 0o600) for each in job["said"]]
    for target, source in enumerate((nothing, *files)):
        os.dup2(source, target)
    code = run_to_end(job["arguments"])
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError):
        os.write(names, "\n".join(list(sys.modules)).encode())
    os._exit(code)


if __name__ == "__main__":
    import odfbuild.cli.main  # noqa: F401 - imported once for all children

    if sys.argv[1:] == ["sparkless"]:
        from odfbuild.executors.engine.spark import engine
        from tests.support.engines import FakeEngine

        engine.SparkEngine = lambda *_, **__: FakeEngine()  # type: ignore[assignment, misc]
    _serve()
