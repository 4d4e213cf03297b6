"""The page about pushing says what is so: its definition, its commands and its Python are run."""

import gzip
import os
import re
import sys
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark import engine as spark
from tests.pages.test_readme import commands, pattern
from tests.support.engines import FakeEngine
from tests.support.process.inside import lay_out, without_jvm
from tests.support.projects import REPOSITORY, shell
from tests.support.projects.pushes import rows

PAGE = (REPOSITORY / "docs" / "push.md").read_text("utf-8")
MONDAY = b"at,bed,moisture\n2024-05-06T08:00:00Z,roses,0.5\n2024-05-06T08:00:00Z,beans,0.7\n"
TUESDAY = '{"at": "2024-05-07T08:00:00Z", "bed": "roses", "moisture": 0.45}\n'


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_page_about_pushing_is_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str | bytes | None] = {
        "datasets/readings.yaml": block("yaml"),
        "monday.csv.gz": gzip.compress(MONDAY),
        "tuesday.ndjson": TUESDAY,
    }
    garden = lay_out(tmp_path / "garden", files)
    assert without_jvm("apply", "--yes", cwd=garden).code == 0
    program = tmp_path / "bin" / "odfbuild"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.support.process.inside "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    shown = list(commands(PAGE))
    assert len(shown) == 3
    for step in shown:
        done = shell(step.command, garden, PATH=path, PYTHONPATH=str(REPOSITORY))
        assert done.code == 0, done.err
        assert pattern(step.output).fullmatch(done.out), done.out
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    exec(compile(block("python"), "push.md", "exec"), {})  # noqa: S102
    found = without_jvm("show", "garden.readings", "-o", "json", cwd=garden)
    text = found.out.replace('"bed"', '"k"').replace('"moisture"', '"v"')
    assert rows(text) == [("roses", 0.5), ("beans", 0.7), ("roses", 0.45), ("roses", 0.4)]
