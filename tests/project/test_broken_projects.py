"""Projects that are broken in several places: one run tells all of it, each at its place.

A case is a folder: `project` as it is, `faults.txt` with what was broken on purpose, a line each
(`CODE FILE: what`), `expected.txt` with what `odfbuild check` prints, and `prepare.txt` with links,
empty folders and broken Python, which are made here.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.process.within import Within

CASES = sorted(each for each in (Path(__file__).parent / "broken").iterdir() if each.is_dir())

Golden = Callable[[Path, str], None]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

_HEAD = re.compile(
    r"(?:(?P<place>\S.*?): )?(?:error|warning)\[(?P<code>[a-z0-9-]+|ODF\d{3})\]: \S.*"
)
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+)(?: \[[^\]]+\])?")
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def broken(
    case: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Within:
    folder = tmp_path / "project"
    shutil.copytree(case / "project", folder)
    _prepare(folder, case / "prepare.txt")
    return Within(folder, capsys, monkeypatch)


def _prepare(folder: Path, steps: Path) -> None:
    for line in steps.read_text("utf-8").splitlines() if steps.exists() else ():
        kind, name, *rest = line.split(" ", maxsplit=2)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            (folder / name).symlink_to(rest[0])
        elif kind == "text":
            (folder / name).write_text(f"{rest[0]}\n")
        else:
            (folder / name).mkdir()


def problems(text: str) -> list[str]:
    """Return the problems that were printed, without the line that counts them."""
    said = text.rstrip("\n").split("\n\n")
    return said[:-1] if len(said) > 1 and re.match(r"[\d,]+ ", said[-1]) else said


def test_there_are_as_many_cases_as_promised() -> None:
    assert len(CASES) >= 40
    assert sum(len(faults(case)) >= 2 for case in CASES) == len(CASES)


@each_case
def test_one_run_tells_all_that_is_wrong(case: Path, broken: Within, golden: Golden) -> None:
    done = broken("check")
    assert done.code == 1
    golden(case / "expected.txt", done.out + done.err)


@each_case
def test_each_fault_is_told_once_and_nothing_else(case: Path) -> None:
    told = [_code_and_file(each) for each in problems(expected(case))]
    assert sorted(told) == sorted(faults(case))


@each_case
def test_each_problem_has_a_place_a_reason_and_a_way_out(case: Path) -> None:
    assert "Traceback" not in expected(case)
    for each in problems(expected(case)):
        _assert_is_complete(each)


@each_case
def test_nothing_that_is_told_steers_the_terminal(case: Path) -> None:
    assert not _STEERING.search(expected(case))


@each_case
def test_a_plan_tells_the_same(case: Path, broken: Within) -> None:
    done = broken("plan")
    assert done.code == 1
    assert "Traceback" not in done.err
    told = _errors(done.out + done.err)
    assert told - {each for each in told if "input-left-out" in each} == _errors(expected(case))


def _errors(text: str) -> set[str]:
    """Return places and codes of all errors."""
    return {match[0].strip() for match in re.finditer(r"^ *\S.*? error\[[\w-]+\]", text, re.M)}


def expected(case: Path) -> str:
    return (case / "expected.txt").read_text("utf-8")


def faults(case: Path) -> list[tuple[str, str]]:
    """Return the code and the file of all that was broken on purpose."""
    lines = (case / "faults.txt").read_text("utf-8").splitlines()
    pairs = (line.partition(":")[0].split(" ") for line in lines)
    return [(code, file) for code, file in pairs]


def _code_and_file(problem: str) -> tuple[str, str]:
    head = _HEAD.fullmatch(problem.partition("\n")[0])
    assert head is not None, problem
    place = _PLACE.fullmatch(head["place"] or "")
    assert place is not None, problem
    return head["code"], place["file"]


def _assert_is_complete(problem: str) -> None:
    head, *lines = problem.split("\n")
    found = _HEAD.fullmatch(head)
    assert found is not None, problem
    place = _PLACE.fullmatch(found["place"] or "")
    assert place is not None, problem
    why = next(at for at, line in enumerate(lines) if line.startswith("  why: "))
    fix = next(at for at, line in enumerate(lines) if line.startswith("  fix: "))
    assert why < fix
    excerpt = lines[:why]
    if excerpt:
        assert len(excerpt) == 2, problem
        assert excerpt[0].startswith(f"  {place['line']} | "), problem
        assert re.fullmatch(r" +\| [ \t]*\^+", excerpt[1]), problem
