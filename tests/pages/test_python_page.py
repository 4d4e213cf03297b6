"""The page about Python says what is so: its code is run."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import odfbuild
from docs.python_reference import members_of
from odfbuild.executors.engine.spark import engine as spark
from tests.pages.test_reading_page import shop_in
from tests.support.engines import FakeEngine
from tests.support.projects import REPOSITORY

PAGE = (REPOSITORY / "docs" / "python.md").read_text("utf-8")


def test_the_reference_has_every_public_name_with_its_members_types_and_text() -> None:
    for name in odfbuild.__all__:
        if name == "__version__":
            continue
        found = getattr(odfbuild, name)
        section = re.search(rf"^#### {name}\n(.+?)(?=^###|\Z)", PAGE, re.DOTALL | re.MULTILINE)
        assert section is not None, name
        assert (found.__doc__ or "").partition("\n")[0] in section[1], name
        assert found.__doc__, name
        members = list(members_of(found)) if inspect.isclass(found) else []
        for member, value in [] if is_error(found) else members:
            assert value.__doc__, (name, member)
            is_property = isinstance(value, property)
            assert (f"- `{member}`: `" if is_property else f"{name}.{member}(") in section[1]
    typed = re.findall(r"```py\n(.+?)```", PAGE, re.DOTALL)
    assert len(typed) > 15
    for each in typed:  # all parameters have types, and all functions a result
        named, parameters = each.strip().split("(", 1)
        definition = ast.parse(f"def {named.rpartition('.')[2]}({parameters}: ...").body[0]
        assert isinstance(definition, ast.FunctionDef)
        assert definition.returns is not None, named
        given = [*definition.args.args, *definition.args.kwonlyargs]
        assert all(arg.annotation is not None for arg in given), named


def is_error(found: object) -> bool:
    return inspect.isclass(found) and issubclass(found, Exception)


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
