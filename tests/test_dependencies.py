"""Packages of others that the code uses: those that a plain install brings, and those of extras."""

import ast
import importlib.metadata
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = Path(__file__).parents[1] / "odfbuild"
ROOMS = {
    "cli/editor": {"lsp"},
    "executors/engine/contract": {"engine"},
    "executors/engine/datafusion": {"ethereum"},
    "executors/engine/spark/cluster/connect": {"connect"},
    "executors/ingest/read/geo": {"geo"},
    "serve": {"serve"},
    "serve/flight": {"flight"},
    "state/remote/store": {"s3"},
}
"""The folders that may import what an extra brings."""

NEEDS_OTHERS = frozenset({"to_numpy", "to_pandas", "from_pandas", "toPandas", "zero_copy_only"})
"""What pyarrow and PySpark do only where NumPy or pandas is installed, too."""

FRAMES = {"executors/ingest/push/spool.py": {"from_pandas"}}
"""Where a data frame of the caller is read: who has one has pandas."""

PLAIN = frozenset[str]()
MODULES = sorted(PACKAGE.rglob("*.py"))


def needs(name: str) -> list[str]:
    """Return what a distribution needs; nothing of one that is not installed here."""
    if name == "odfbuild":
        project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["project"]
        extras = project["optional-dependencies"].items()
        more = [f"{each}; extra == '{extra}'" for extra, those in extras for each in those]
        return [*project["dependencies"], *more]
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []


@cache
def distributions(extras: frozenset[str]) -> frozenset[str]:
    """Return the names of what an install with some extras brings."""
    found: set[str] = set()
    left = [("odfbuild", extras)]
    while left:
        name, wanted = left.pop()
        if name in found:
            continue
        found.add(name)
        for line in needs(name):
            each = Requirement(line)
            asked = [{"extra": extra} for extra in ("", *sorted(wanted))]
            if each.marker is None or any(map(each.marker.evaluate, asked)):
                left.append((canonicalize_name(each.name), frozenset(each.extras)))
    return frozenset(found)


@cache
def providers() -> Mapping[str, Sequence[str]]:
    """Return the distributions that bring each module."""
    return importlib.metadata.packages_distributions()


@cache
def brought_by(extras: frozenset[str]) -> frozenset[str]:
    """Return the modules that an install with some extras brings, of Python's own as well."""
    brought = distributions(extras)
    return (
        sys.stdlib_module_names
        | {"odfbuild"}
        | {
            module
            for module, names in providers().items()
            if not brought.isdisjoint(map(canonicalize_name, names))
        }
    )


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


def imported(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the first name of every import, wherever in a module it is."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, each.name.partition(".")[0]) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


def extras_of(module: Path) -> frozenset[str]:
    folder = module.relative_to(PACKAGE).parent
    above = [folder, *folder.parents]
    return frozenset().union(*(ROOMS.get(each.as_posix(), ()) for each in above))


def test_modules_import_what_an_install_brings() -> None:
    assert [
        f"{module.relative_to(PACKAGE)}:{line} {name}"
        for module in MODULES
        for line, name in imported(module)
        if name not in brought_by(extras_of(module))
    ] == []


def test_nothing_is_asked_of_numpy_and_pandas() -> None:
    found = {}
    for module in MODULES:
        nodes = ast.walk(tree_of(module))
        if asked := {each.attr for each in nodes if isinstance(each, ast.Attribute)} & NEEDS_OTHERS:
            found[module.relative_to(PACKAGE).as_posix()] = asked
    assert found == FRAMES


def test_every_extra_is_used_where_it_may_be() -> None:
    for room, extras in ROOMS.items():
        names = {name for each in (PACKAGE / room).rglob("*.py") for _, name in imported(each)}
        for extra in extras:
            assert names & (brought_by(frozenset({extra})) - brought_by(PLAIN)), (room, extra)


def test_a_plain_install_is_without_what_makes_starts_slow() -> None:
    assert {"numpy", "pandas", "grpc", "obstore", "starlette"}.isdisjoint(brought_by(PLAIN))
