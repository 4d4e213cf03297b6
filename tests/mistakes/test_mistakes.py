"""Every mistake of the table is answered, and how: byte for byte, with `--update-golden` again.

The answers are there to be read: each says what is wrong, where, why, and how to go on.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark import engine as spark
from tests.mistakes.mistake import Files, Mistake
from tests.mistakes.shop import FILES
from tests.mistakes.table import TABLE
from tests.support.engines import FakeEngine
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects.market import steady

ANSWERS = Path(__file__).with_name("answers")
_SAID = re.compile(r"\b(?:warning|note)\[|\bODF\d{3}\b")
_RUN = re.compile(r"--resume \S+")
_STEP = re.compile(r"^\[\d/\d\] .*\n", re.MULTILINE)
_AT_NAME = re.compile(r"(?:error|warning)\[([\w-]+)\].*\n +\d+ \| +name: ")
_OF_NAMES = {"invalid-name", "duplicate-name", "generated-name", "still-declared", "duplicate-key"}
_OF_NAMES |= {"wrong-type", "template-undefined", "template-error", "template-syntax", "yaml-tag"}
_OF_NAMES |= {"yaml-syntax", "yaml-key", "unchosen-input", "config"}
"""What is said of a name, or of a dataset as a whole; anything else has a place of its own."""
Golden = Callable[[Path, str], None]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the project is built, once there is one."""
    return tmp_path_factory.mktemp("mistakes")


def test_there_are_as_many_as_promised() -> None:
    names = [name for group in TABLE.values() for name in group]
    assert len(names) == len(set(names)) >= 120


def test_what_is_said_of_a_part_of_a_definition_is_said_where_that_stands() -> None:
    texts = [path.read_text("utf-8") for path in Path(__file__).parents[1].rglob("*.txt")]
    found = {code for text in texts for code in _AT_NAME.findall(text)}
    assert found
    assert found <= _OF_NAMES


@pytest.mark.parametrize("group", TABLE)
def test_each_is_answered(
    group: str,
    built: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    project = built / "shop"
    if not project.exists():
        lay_out(project, {name: str(text) for name, text in FILES.items()})
        Within(project, capfd, monkeypatch).done("apply", "--yes", "--quiet")
    answers = []
    for name, mistake in TABLE[group].items():
        folder = shutil.copytree(project, tmp_path / "shop")
        change(folder, mistake.files)
        done = Within(folder, capfd, monkeypatch)(*mistake.command)
        assert "error[internal]" not in done.err, name
        said = done.code or done.err or _SAID.search(done.out)
        assert bool(said) != bool(mistake.silent), name
        answers.append(shown(name, mistake, done.code, done.out, done.err, tmp_path))
        shutil.rmtree(folder)
    golden(ANSWERS / f"{group}.txt", "\n".join(answers))


def change(folder: Path, files: Files) -> None:
    """Make a mistake."""
    for name, content in files.items():
        path = folder / name
        if callable(content):
            path.write_text(content(path.read_text("utf-8")), "utf-8")
        else:
            lay_out(folder, {name: content}) if content is not None else path.unlink()


def shown(name: str, mistake: Mistake, code: int, out: str, err: str, place: Path) -> str:
    """Return a mistake and its answer as people see them, without what differs from run to run."""
    heard = out if mistake.command[0] != "apply" else ""  # the plan comes before what was done
    said = steady(heard + _STEP.sub("", err)).replace(str(place), "/home/ann")
    said = _RUN.sub("--resume RUN", said)
    lines = "".join(f"  {line}\n" if line else "\n" for line in said.splitlines())
    return f"# {name}\n$ odfbuild {' '.join(mistake.command)}\n{lines}exit {code}\n"
