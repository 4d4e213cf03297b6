"""Whole projects, templates, selectors and saved plans as inputs of ill will.

A project is one text: `=== PATH` before the content of each file, `=== PATH -> TARGET` for a link.
"""

import json
import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from odfbuild.errors import OdfBuildError
from odfbuild.planner.make_plan import make_plan, project_hash
from odfbuild.planner.saved import canonical, document_hash, from_json, to_json
from odfbuild.planner.select.parse import parse_selector
from odfbuild.project.load import load_project
from odfbuild.project.survey import survey
from tests.support.process.confined import confined

__all__ = ["plan", "project", "selector", "template"]

_HEAD = re.compile(rb"^=== ([^\n]*)\n", re.MULTILINE)
_SETTINGS = b"""odfbuild: 1
name: fuzzed
vars:
  region: {type: string, default: eu}
  sizes: {type: list, default: [1, 2]}
generate:
  rates:
    template: templates/t.yaml.j2
    for_each: {eur: {pair: EUR/USD}, gbp: {pair: GBP/USD}}
    name: "rates.{{ each.key }}"
"""
_MACROS = b"{% macro twice(text) %}{{ text }}{{ text }}{% endmacro %}\n"


def project(data: bytes) -> None:
    """Read and plan a project; nothing outside of its folder is touched."""
    _read({name: content for name, content in _sections(data) if not name.endswith(".py")})


def template(data: bytes) -> None:
    """Read the definitions that one template makes for two items."""
    _read({
        "odfbuild.yaml": _SETTINGS,
        "macros/m.j2": _MACROS,
        "templates/t.yaml.j2": data,
        "datasets/none.yaml": b"",
    })  # fmt: skip


def selector(data: bytes) -> None:
    """Read a selector, which may refer to others."""
    text, *others = data.decode("utf-8", "surrogateescape").split("\n")
    with suppress(OdfBuildError):
        parse_selector(text, {f"s{at}": each for at, each in enumerate(others)})


def plan(data: bytes) -> None:
    """Read a saved plan, whether altered or not; what is read is written as it was."""
    with suppress(ValueError, RecursionError):
        document = json.loads(data)
        with suppress(OdfBuildError):
            from_json(document)
        with suppress(AttributeError, KeyError, TypeError):  # too far from a plan to be hashed
            document = {**document, "plan_hash": document_hash(document)}
        with suppress(OdfBuildError):
            read = from_json(document)
            assert from_json(json.loads(canonical(to_json(read)))) == read


def _sections(data: bytes) -> list[tuple[str, bytes]]:
    _, *parts = _HEAD.split(data)
    names = [each.decode("utf-8", "replace") for each in parts[::2]]
    return [
        (name, content)
        for name, content in zip(names, parts[1::2], strict=True)
        if _is_inside(name.partition(" -> ")[0])
    ]


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _read(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="odfbuild-fuzz-") as folder:
        root = Path(folder) / "project"
        root.mkdir()
        _lay_out(root, files)
        with confined(root) as seen:
            _plan(root)
            left = set(root.rglob("*"))
        assert not seen, seen
        assert all(each.is_symlink() or not each.name.startswith(".odf") for each in left)


def _lay_out(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path, arrow, target = name.partition(" -> ")
        with suppress(OSError, ValueError):  # names that no file can have, or that collide
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            if arrow:
                (root / path).symlink_to(target)
            else:
                (root / path).write_bytes(content)


def _plan(root: Path) -> None:
    try:
        loaded = load_project(root)
    except OdfBuildError:
        with suppress(OdfBuildError):  # there may be no project file at all
            assert survey(root)
        return
    with suppress(OdfBuildError):
        made = make_plan(
            loaded.declared,
            current={},
            sources={},
            engines={"spark": "4.0"},
            project_hash=project_hash(loaded.declared),
        )
        named = replace(made, project=loaded.config.name, target="dev", refused={})
        assert from_json(json.loads(canonical(to_json(named)))) == named
