"""SIGTERM and SIGHUP end a run as ^C does, and the exit code says which it was."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from odfbuild.cli.terminal.signals import ended_by, ending_signals
from odfbuild.state.files.lock import is_locked
from tests.support.process.inside import command, heads, lay_out
from tests.support.projects import await_said
from tests.support.projects.texts import GOOD, root

BOTH = [signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("sign", BOTH)
def test_a_watching_run_ends_in_order(sign: signal.Signals, project: Path) -> None:
    words, env = command("run", "--watch")
    process = subprocess.Popen(words, cwd=project, env=env, stderr=subprocess.PIPE, text=True)
    lay_out(project, {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"})
    before, until = heads(project), time.monotonic() + 60
    while heads(project) == before and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(sign)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + sign, said
    assert f"odfbuild: ended by {sign.name}; no step is left half done" in said
    assert "Traceback" not in said


INTERRUPTED_WHILE_LOADING = """
import os, signal, sys
at, sign = int(sys.argv.pop(1)), int(sys.argv.pop(1))
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        global at
        at -= 1
        if at == 0:
            os.kill(os.getpid(), sign)
from odfbuild.__main__ import program
sys.meta_path.insert(0, Interrupting())
program()
"""


@pytest.mark.parametrize("at", [1, 2, 5, 10, 30, 60, 100, 150])
def test_an_interrupt_while_the_program_is_loaded_has_no_traceback(at: int, project: Path) -> None:
    _, env = command("version")
    words = [sys.executable, "-P", "-c", INTERRUPTED_WHILE_LOADING, str(at), str(signal.SIGINT)]
    done = subprocess.run(
        [*words, "version"],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    assert done.stderr == "odfbuild: interrupted; no step is left half done\n"


def running(text: str) -> bool:
    """Tell whether a program runs that was started with a text among its arguments."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if text.encode() in each.read_bytes():
                return True
    return False


@pytest.mark.parametrize("sign", BOTH)
def test_a_download_that_hangs_is_given_up_and_its_program_ended(
    sign: signal.Signals, tmp_path: Path
) -> None:
    waits = f": {tmp_path.name}; cat; sleep 60"
    prepare = f"{{kind: Pipe, command: [sh, -c, '{waits}']}}"
    project = lay_out(
        tmp_path / "p", {"datasets/a.yaml": root("a", prepare=prepare), "data/1.csv": GOOD}
    )
    words, env = command("apply", "--yes")
    process = subprocess.Popen(words, cwd=project, env=env, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not running(tmp_path.name) and time.monotonic() < until:
        time.sleep(0.05)
    assert running(tmp_path.name)
    process.send_signal(sign)
    begun = await_said(process, "ends after the open slices")
    process.send_signal(sign)  # at once
    _, said = process.communicate(timeout=60)
    said = begun + said
    assert process.returncode == 128 + sign, said
    assert "Traceback" not in said
    while running(tmp_path.name):
        time.sleep(0.05)
    for each in (project / ".odfbuild/datasets").iterdir():
        assert not is_locked(each)


def test_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            assert ended_by() is signal.SIGINT
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_script_whose_children_ignore_interrupts_can_end_them() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ending_signals(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended_by() is signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)
