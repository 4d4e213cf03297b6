"""The page about the architecture: a drawing of the imports and the rooms, read from the code."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["architecture_page"]

_PACKAGE = Path(__file__).parent.parent / "odfbuild"
_FACES = frozenset({_PACKAGE / "__init__.py", _PACKAGE / "app" / "__init__.py"})
_SMALL = frozenset({"errors", "texts", "values"})


def architecture_page(page: Path, mark: str) -> str:
    """Keep what is written by hand above the mark; draw imports and list rooms below it."""
    written, _, _ = page.read_text("utf-8").partition(mark)
    drawing = "\n".join(f"    {_node(one)} --> {_node(other)}" for one, other in _drawn())
    rooms = "\n".join(_rooms(_PACKAGE, 0))
    return (
        f"{written}{mark}\n\n"
        "## Imports\n\n"
        "An arrow leads from who imports to what is imported. An arrow that other arrows lead\n"
        "along is left out, as are the modules that all others use: `errors`, `texts`,\n"
        "and `values`.\n\n"
        f"```mermaid\nflowchart TD\n{drawing}\n```\n\n"
        f"## Rooms\n\n{rooms}\n"
    )


def _node(name: str) -> str:
    return f'{name.replace("/", "_")}["{name}"]'


def _drawn() -> Iterator[tuple[str, str]]:
    """Yield the arrows that are left when those that follow from others are taken away."""
    arrows = _arrows()
    reached = {name: _reach(arrows, name) for name in arrows}
    for one in sorted(arrows):
        for other in sorted(arrows[one]):
            if not any(other in reached[via] for via in arrows[one] - {other}):
                yield one, other


def _reach(arrows: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        for other in arrows.get(left.pop(), set()) - found:
            found.add(other)
            left.append(other)
    return found


def _arrows() -> dict[str, set[str]]:
    """Return which room imports which; those of `executors` are rooms of their own."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in sorted(_PACKAGE.rglob("*.py")):
        if module in _FACES:
            continue
        one = _room(module.relative_to(_PACKAGE).with_suffix("").parts)
        found[one] |= set()
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("odfbuild."):
                path = (node.module or "").split(".")[1:]
                names = [[*path, alias.name] for alias in node.names]
                found[one] |= {_room(tuple(each)) for each in names}
    for name in _SMALL:
        found.pop(name, None)
    return {name: others - {name} - _SMALL for name, others in found.items()}


def _room(path: tuple[str, ...]) -> str:
    return "/".join(path[:2]) if path[0] == "executors" and len(path) > 2 else path[0]


def _rooms(folder: Path, depth: int) -> Iterator[str]:
    """Yield a line for each folder: its name and what its docstring says."""
    for each in sorted(folder.iterdir()):
        if (each / "__init__.py").is_file():
            tree = ast.parse((each / "__init__.py").read_text("utf-8"))
            first = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
            name = each.relative_to(_PACKAGE).as_posix()
            yield f"{'  ' * depth}- `{name}`: {first.removesuffix('  Pure.')}"
            yield from _rooms(each, depth + 1)
