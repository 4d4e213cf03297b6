"""Work in two halves, one of them in a forked child; in processes of their own, without threads."""

import subprocess
import sys
from pathlib import Path

import pytest

from odfbuild.project.second_process import in_halves
from tests.support.process.inside import lay_out
from tests.support.projects import REPOSITORY, environment, program
from tests.support.projects.texts import root

TWO = "import os; os.sched_getaffinity = lambda _: {0, 1}\n"


def ran(script: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TWO + script],
        cwd=REPOSITORY, env=environment(**more), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


SQUARES = """
from odfbuild.project.second_process import in_halves
parts = in_halves(range({count}), lambda part: (os.getpid(), [n * n for n in part]), least=10)
print(len({{pid for pid, _ in parts}}), [n for _, part in parts for n in part])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a fork is safe on Linux only")
def test_the_second_half_is_done_by_another_process_and_comes_back_in_order() -> None:
    assert ran(SQUARES.format(count=11)) == f"2 {[n * n for n in range(11)]}\n"


def test_little_work_is_not_divided() -> None:
    assert ran(SQUARES.format(count=9)) == f"1 {[n * n for n in range(9)]}\n"
    assert ran(SQUARES.format(count=11), ODFBUILD_NO_FORK="1").startswith("1 ")


def test_a_session_keeps_all_that_is_read_here() -> None:
    inside = "from odfbuild.host.reading_session import ReadingSession\n" + SQUARES.replace(
        "parts =", "with ReadingSession().round({{}}): parts ="
    )
    assert ran(inside.format(count=11)) == f"1 {[n * n for n in range(11)]}\n"


def test_what_the_child_cannot_do_is_done_here() -> None:
    script = """
from odfbuild.project.second_process import in_halves
here = os.getpid()
def work(part):
    if os.getpid() != here:
        {dies}
    return list(part)
print(in_halves(range(20), work, least=10))
"""
    for dies in ("os._exit(3)", "os.kill(os.getpid(), 9)", "return lambda: None"):
        assert ran(script.format(dies=dies)) == f"({list(range(10))}, {list(range(10, 20))})\n"


def test_threads_forbid_a_fork() -> None:
    waits = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    assert ran(f"{waits}\n" + SQUARES.format(count=11)).startswith("1 ")


def test_the_parts_are_those_of_the_whole_also_without_a_second_process() -> None:
    assert in_halves([1, 2, 3], list, least=2) in (([1, 2, 3],), ([1], [2, 3]))


def test_a_large_project_is_read_alike_by_one_process_and_by_two(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {
        f"datasets/{n:03d}.yaml": root(name=f"src-{n}") for n in range(210)
    }
    files["datasets/209.yaml"] = "kind: DatasetSnapshot\nversion: 1\ncontent: {}\n"
    lay_out(tmp_path, files)
    one = program("plan", cwd=tmp_path, ODFBUILD_NO_FORK="1")
    assert one.code == 1
    assert "datasets/209.yaml:3:1" in one.out
    assert program("plan", cwd=tmp_path) == one
    lay_out(tmp_path, {"datasets/209.yaml": None})
    one = program("plan", "--metadata-only", cwd=tmp_path, ODFBUILD_NO_FORK="1")
    assert one.code == 0
    assert program("plan", "--metadata-only", cwd=tmp_path) == one
