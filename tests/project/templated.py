"""Small projects with templates, for tests."""

from collections.abc import Mapping
from pathlib import Path

from odfbuild.odf.events import SetInfo
from odfbuild.planner.declared import Declared
from odfbuild.project.load import load_project
from odfbuild.project.yaml import Value

__all__ = ["NAMED", "SETTINGS", "UNNAMED", "described", "lay_out", "one"]

SETTINGS = "odfbuild: 1\nname: test\n"
NAMED = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetInfo
      description: {text}
"""
UNNAMED = NAMED.replace("  name: {name}\n", "")


def lay_out(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder; add what makes it a project."""
    for name, text in {"odfbuild.yaml": SETTINGS, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    (root / "datasets").mkdir(exist_ok=True)
    return root


def described(declared: Declared) -> str | None:
    """Return the description of a dataset that is made of NAMED or UNNAMED."""
    (info,) = declared.snapshot.metadata
    assert isinstance(info, SetInfo)
    return info.description


def one(
    root: Path,
    text: str,
    files: Mapping[str, str] | None = None,
    *,
    variables: Mapping[str, Value] | None = None,
    env: Mapping[str, str] | None = None,
) -> str | None:
    """Return the description that a template makes of `description: {text}`."""
    template = NAMED.replace("{name}", "a").replace("{text}", text)
    lay_out(root, {"datasets/a.yaml.j2": template, **(files or {})})
    (declared,) = load_project(root, variables=variables, env=env).declared
    return described(declared)
