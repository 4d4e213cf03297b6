"""Kept answers: there when asked again, gone without harm when the file is."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from odfbuild.state.memory.engine_answers import Answers


def test_an_answer_is_there_when_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "answers.sqlite"
    with Answers(path) as answers:
        assert answers.get("q") is None
        answers.put("q", "a")
        answers.put("q", "b")
    with Answers(path) as answers:
        assert answers.get("q") == "b"


def test_answers_without_a_file_last_as_long_as_they_are_open() -> None:
    with Answers() as answers:
        answers.put("q", "a")
        assert answers.get("q") == "a"
    assert answers.get("q") is None


def overwrite(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def falsify(path: Path) -> None:
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("update answers_1 set answer = 'x'")
    opened.close()


def drop(path: Path) -> None:
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("drop table answers_1")
    opened.close()


@pytest.mark.parametrize("damage", [overwrite, falsify, drop, Path.unlink])
def test_a_damaged_answer_is_forgotten_and_can_be_given_anew(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "answers.sqlite"
    with Answers(path) as answers:
        answers.put("q", "a")
    damage(path)
    with Answers(path) as answers:
        assert answers.get("q") is None
        answers.put("q", "b")
        assert answers.get("q") == "b"


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Answers(tmp_path / "file" / "answers.sqlite") as answers:
        answers.put("q", "a")
        assert answers.get("q") is None
