"""The layers of the package, read from the imports of every module."""

import ast
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.projects import EXAMPLES, probe

PACKAGE = Path(__file__).parents[1] / "odfbuild"
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"values"}),
    frozenset({"texts"}),
    frozenset({"errors"}),
    frozenset({"host"}),
    frozenset({"odf"}),
    frozenset({"lineage", "sql", "state"}),
    frozenset({"planner"}),
    frozenset({"project"}),
    frozenset({"repositories"}),
    frozenset({"executors"}),
    frozenset({"app", "serve"}),
    frozenset({"cli"}),
)
PURE = ("odf", "planner", "sql")
ENTRIES = 16  # of a folder at most
_ASKED_FOR_BY_PYTHON = {"__main__.py", "__pycache__", "py.typed"}
EFFECTS = frozenset(
    {"os", "io", "pathlib", "socket", "sqlite3", "subprocess", "time", "random", "secrets"}
    | {"pyspark", "shutil", "tempfile"}
)
NO_NOUNS = frozenset({"Nothing", "What", "Whether", "Which", "How", "Where", "Who", "Why", "When"})
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def area_of(name: str) -> str:
    """Return the layer's part that a dotted name or a path below the package belongs to."""
    return name.replace("/", ".").removesuffix(".py").split(".")[0]


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


@cache
def nodes_of(module: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(module)))


@cache
def imports_of(module: Path) -> tuple[str, ...]:
    """Return every module that a module imports, wherever in it the import stands."""
    found: list[str] = []
    for node in nodes_of(module):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(module)}: a relative import"
            found += [f"{node.module or ''}.{alias.name}" for alias in node.names]
    return tuple(found)


@cache
def own_imports_of(module: Path) -> tuple[str, ...]:
    """Return what a module imports of this package, without the package's name."""
    return tuple(
        imported.removeprefix("odfbuild.")
        for imported in imports_of(module)
        if imported.startswith("odfbuild.") and imported != "odfbuild.__version__"
    )


def rank(area: str) -> int:
    return next(n for n, layer in enumerate(LAYERS) if area in layer)


def of_all_modules(check: Callable[[Path], None]) -> Callable[[], None]:
    """Make a test that tells of every module that fails a check."""

    def test() -> None:
        failed = []
        for module in MODULES:
            try:
                check(module)
            except AssertionError as error:
                failed.append(f"{name_of(module)}: {error}")
        assert not failed, "\n".join(failed)

    test.__name__ = check.__name__
    return test


@of_all_modules
def test_imports_point_down_only(module: Path) -> None:
    if name_of(module) in {"__init__.py", "__main__.py"}:
        return
    area = area_of(name_of(module))
    for imported in own_imports_of(module):
        other = area_of(imported)
        assert other == area or rank(other) < rank(area), f"{area} imports {imported}"


@of_all_modules
def test_the_core_has_no_effects(module: Path) -> None:
    if area_of(name_of(module)) in PURE:
        assert EFFECTS.isdisjoint(i.split(".")[0] for i in imports_of(module))


@of_all_modules
def test_spark_is_named_in_one_folder_only(module: Path) -> None:
    if not name_of(module).startswith("executors/engine/spark/"):
        assert {"pyspark", "py4j"}.isdisjoint(i.split(".")[0] for i in imports_of(module))


@of_all_modules
def test_the_parser_is_named_where_its_words_and_tree_are_read_only(module: Path) -> None:
    known = ("sql/text/parse.py", "sql/text/tokens.py", "sql/text/tree_")
    if not name_of(module).startswith(known):
        assert "sqlglot" not in {i.split(".")[0] for i in imports_of(module)}


@of_all_modules
def test_every_module_names_what_is_in_it(module: Path) -> None:
    first = (ast.get_docstring(tree_of(module)) or "Nothing").split()[0].rstrip(":,")
    assert first not in NO_NOUNS, f"{name_of(module)}: a noun phrase comes first"


def dotted(module: Path) -> tuple[str, ...]:
    """Return the names that lead to a module, below the package."""
    parts = module.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


@cache
def links() -> frozenset[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return which module imports which, wherever the import stands, also for types only.

    The two faces of the package are left out: they name what they give as texts.
    """
    known = {dotted(module) for module in MODULES}
    found = set()
    for module in MODULES:
        if name_of(module) in FACES:
            continue
        for imported in own_imports_of(module):
            names = tuple(imported.split("."))
            other = names if names in known else names[:-1]
            if other and other != dotted(module):
                found.add((dotted(module), other))
    return frozenset(found)


FACES = ("__init__.py", "app/__init__.py")


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """Return entries that import each other in a circle, none if there is no circle."""
    left = {name: set(others) for name, others in arrows.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


FOLDERS = sorted({module.parent for module in MODULES})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_circle_among_the_entries_of_a_folder(folder: Path) -> None:
    inside = folder.relative_to(PACKAGE).parts
    size = len(inside)
    arrows: dict[str, set[str]] = {}
    for one, other in links():
        if one[:size] == inside == other[:size]:
            names = [(each[size:] or ("__init__",))[0] for each in (one, other)]
            if names[0] != names[1]:
                arrows.setdefault(names[0], set()).add(names[1])
    assert circle(arrows) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_package_gives_no_name_that_is_a_module_of_it(folder: Path) -> None:
    """An import of the module would put it in the place of what the package gives."""
    modules = {each.stem for each in folder.iterdir() if each.suffix in {"", ".py"}}
    given = set()
    for node in tree_of(folder / "__init__.py").body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                given.add(name)
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                given |= set(ast.literal_eval(node.value))
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                given.add(name)
            case ast.ImportFrom(names=names):
                given |= {alias.asname or alias.name for alias in names}
    assert given & modules - {"__init__"} == set()


def test_no_circle_among_modules() -> None:
    arrows: dict[str, set[str]] = {}
    for one, other in links():
        arrows.setdefault(".".join(one), set()).add(".".join(other))
    assert circle(arrows) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_can_be_read_at_a_glance(folder: Path) -> None:
    entries = {each.name for each in folder.iterdir()} - _ASKED_FOR_BY_PYTHON
    assert len(entries) <= ENTRIES


@of_all_modules
def test_only_the_command_line_prints(module: Path) -> None:
    if area_of(name_of(module)) != "cli":
        calls = (n.func for n in nodes_of(module) if isinstance(n, ast.Call))
        assert "print" not in {c.id for c in calls if isinstance(c, ast.Name)}


PLACES = frozenset(
    {
        "state/chain/dataset.py",  # says where files are
        "executors/data/checks/verified_files.py",  # gives those that are as recorded
        "executors/verify/chain.py",  # looks at them all
        "executors/data/checks/files.py",  # compares one with its block
        "executors/verify/history.py",  # the same, of what is replayed
        "executors/verify/replay.py",
        "executors/verify/restoration.py",
        "executors/verify/recompute.py",
        "executors/transform/checkpoint.py",  # checks the one that it reads
        "app/inspection/drift.py",  # looks at presence and size
        "executors/verify/explanation.py",  # looks at presence before it asks for the file
        "executors/testing/test_workspace.py",  # counts
    }
)


@of_all_modules
def test_who_reads_rows_gets_files_that_were_checked(module: Path) -> None:
    asked = {"data_path", "checkpoint_path", "slices"}
    for call in (n for n in nodes_of(module) if isinstance(n, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in asked:
            named = ast.unparse(call.func.value)
            assert name_of(module) in PLACES, f"{named}.{call.func.attr} in line {call.lineno}"


# who swaps heads: each expects the head of a state that it was given, and reads none in its place
MOVES_HEADS = {
    "set_head": {"app/maintenance/rewrite", "app/undo", "app/maintenance/compaction"},
    "swap": {
        "state/chain/refs",
        "state/chain/dataset",
        "repositories/intake",  # aside, in memory
        "state/remote/home",  # of a dataset that is not there yet
        "state/workspace",  # back to where it was taken away a moment ago
    },
    "delete": {"state/chain/refs", "state/workspace", "state/remote/home"},
}
COMMITS = {*MOVES_HEADS, "commit", "rewrite", "append", "remove"}


@of_all_modules
def test_a_commit_expects_the_head_that_its_work_was_made_from(module: Path) -> None:
    name = name_of(module).removesuffix(".py")
    for node in nodes_of(module):
        if isinstance(node, ast.Attribute) and "heads" in ast.unparse(node.value):
            assert name in MOVES_HEADS.get(node.attr, {name}), ast.unparse(node)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "set_head":
            assert name in MOVES_HEADS["set_head"], ast.unparse(node)
        if node.func.attr in COMMITS:
            given = [*node.args, *(each.value for each in node.keywords)]
            read = [call for each in given for call in ast.walk(each) if _reads_head(call)]
            assert not read, f"the head is read just before the swap: {ast.unparse(node)}"


def _reads_head(node: ast.AST) -> bool:
    """Tell whether it asks a dataset for its head, or for its state without naming a block."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in {"head", "state"} and not node.args and not node.keywords


@pytest.mark.parametrize("arguments", [["--help"], ["plan"], ["status"]], ids=" ".join)
def test_deciding_needs_no_engine(arguments: list[str], tmp_path: Path) -> None:
    project = shutil.copytree(EXAMPLES / "water-levels", tmp_path / "project")
    modules, started = probe(*arguments, cwd=project)
    assert {"pyspark", "py4j", "pyarrow"}.isdisjoint(modules)
    assert started <= {"git"}
