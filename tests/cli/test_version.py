"""odfbuild version: what is installed, told without loading it."""

import importlib.metadata
import json
import platform
from pathlib import Path

import pytest

from odfbuild import __version__
from tests.support.process.within import Within
from tests.support.projects import probe


@pytest.fixture
def anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(tmp_path, capsys, monkeypatch)


def test_versions_are_those_of_what_is_installed(anywhere: Within) -> None:
    found = json.loads(anywhere.done("version", "-o", "json"))
    assert found["odfbuild"] == __version__
    assert found["python"] == platform.python_version()
    assert found["spark"].startswith(importlib.metadata.version("pyspark"))
    assert found["odf"] == "0.34.1"
    assert platform.machine() in found["platform"]
    lines = dict(line.split(maxsplit=1) for line in anywhere.done("version").splitlines())
    assert lines == {name: text for name, text in found.items() if name != "format_version"}


def test_no_engine_is_loaded(tmp_path: Path) -> None:
    modules, started = probe("version", cwd=tmp_path)
    assert {"pyspark", "py4j", "pyarrow"}.isdisjoint(modules)
    assert not started
