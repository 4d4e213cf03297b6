"""The page about Python says what is so: its code is run."""

import re
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark import engine as spark
from tests.pages.test_reading_page import shop_in
from tests.support.engines import FakeEngine
from tests.support.projects import REPOSITORY

PAGE = (REPOSITORY / "docs" / "python.md").read_text("utf-8")


def test_the_page_about_python_is_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = shop_in(tmp_path / "my-project")
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 5
    known: dict[str, Any] = {}
    for block in blocks:
        monkeypatch.chdir(tmp_path if "open_project" in block else shop)
        code = block.replace("project.query(", "answer = project.query(")
        exec(compile(code, "docs/python.md", "exec"), known)  # noqa: S102 - of our own page
    assert known["log"].num_rows == 6
    assert known["in_may"].column("item").to_pylist() == ["bread"]
    assert known["dear"].column("item").to_pylist() == ["bread"]
    assert known["answer"].to_pydict() == {"item": ["bread", "salt"], "most": [3.4, 0.8]}
    assert known["plan"].steps == ()
