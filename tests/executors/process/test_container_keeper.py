"""The program that starts containers: it ends with them, and they end with who started it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from odfbuild.executors.process import container_keeper

# "run" takes `slow` seconds until the container exists, and then stays until it is killed
RUNTIME = """#!/bin/sh
echo "$*" >> {log}
case "$1" in
  run) sleep {slow}; echo $$ > {pid}; echo out; echo err >&2; {then} ;;
  kill) [ -e {pid} ] && kill -9 $(cat {pid}) ;;
esac
"""


def started(folder: Path, slow: float, then: str) -> "subprocess.Popen[bytes]":
    program = folder / "runtime"
    names = {"log": folder / "log", "pid": folder / "pid"}
    program.write_text(RUNTIME.format(slow=slow, then=then, **names))
    program.chmod(0o755)
    return subprocess.Popen(
        [sys.executable, "-IS", container_keeper.__file__, str(program), "name", "--opt", "image"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("code", [0, 3, 125])
def test_it_ends_with_the_code_and_the_output_of_the_container(tmp_path: Path, code: int) -> None:
    with started(tmp_path, 0, f"exit {code}") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == (b"out\n", b"err\n")
        assert process.wait(30) == code
    assert (tmp_path / "log").read_text() == "run --rm --name=name --opt image\n"


def test_a_signal_that_ends_the_runtime_is_in_the_code(tmp_path: Path) -> None:
    with started(tmp_path, 0, "kill -9 $$") as process:
        assert process.wait(30) == 137


@pytest.mark.parametrize("slow", [0, 0.7])
@pytest.mark.parametrize("after", [0.0, 0.3, 1.0])
def test_a_container_whose_starter_is_gone_is_removed(
    tmp_path: Path, slow: float, after: float
) -> None:
    """Also one that does not exist yet when its starter goes: the runtime creates it first."""
    with started(tmp_path, slow, "exec sleep 600") as process:
        assert process.stdin is not None
        time.sleep(after)
        process.stdin.close()
        assert process.wait(30) != 0
    lines = (tmp_path / "log").read_text().splitlines()
    ran = [line for line in lines if line.startswith("run ")]
    assert len(ran) == 1  # a kill that begins at the same time may be logged first
    assert "kill name" in lines
    assert lines[-1] == "rm --force name"
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
