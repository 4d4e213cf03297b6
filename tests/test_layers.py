"""The layers of the package, read from the imports of every module."""

import ast
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.projects import EXAMPLES, probe

PACKAGE = Path(__file__).parents[1] / "odfbuild"
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"known_secrets"}),
    frozenset({"redaction"}),
    frozenset({"errors", "json_text", "readiness", "regular_files"}),
    frozenset({"permissions"}),
    frozenset({"odf"}),
    frozenset({"planner"}),
    frozenset({"project", "state", "lineage"}),
    frozenset({"repositories"}),
    frozenset({"executors"}),
    frozenset({"app"}),
    frozenset({"cli"}),
)
PURE = ("odf", "planner")
EFFECTS = frozenset(
    {"os", "io", "pathlib", "socket", "sqlite3", "subprocess", "time", "random", "secrets"}
    | {"pyspark", "shutil", "tempfile"}
)
GENERATED = frozenset({"odf/events.py", "odf/layout.py", "odf/messages.py"})
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


def own_imports_of(module: Path) -> Iterator[str]:
    """Yield what a module imports of this package, without the package's name."""
    for imported in imports_of(module):
        if imported.startswith("odfbuild.") and imported != "odfbuild.__version__":
            yield imported.removeprefix("odfbuild.")


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
    if name_of(module) == "__init__.py":
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
    if not name_of(module).startswith("executors/spark/"):
        assert {"pyspark", "py4j"}.isdisjoint(i.split(".")[0] for i in imports_of(module))


@of_all_modules
def test_the_parser_is_named_where_its_words_and_tree_are_read_only(module: Path) -> None:
    known = ("planner/sql/text.py", "planner/sql/tokens.py", "planner/sql/tree_")
    if not name_of(module).startswith(known):
        assert "sqlglot" not in {i.split(".")[0] for i in imports_of(module)}


@of_all_modules
def test_every_module_says_what_it_is_and_what_it_offers(module: Path) -> None:
    tree = tree_of(module)
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert ast.get_docstring(tree)
    assert "__all__" in assigned or len(tree.body) == 1


@of_all_modules
def test_a_module_is_short_enough_to_be_one_idea(module: Path) -> None:
    if name_of(module) not in GENERATED:
        assert len(module.read_text("utf-8").splitlines()) <= 700


@of_all_modules
def test_only_the_command_line_prints(module: Path) -> None:
    if area_of(name_of(module)) != "cli":
        calls = (n.func for n in nodes_of(module) if isinstance(n, ast.Call))
        assert "print" not in {c.id for c in calls if isinstance(c, ast.Name)}


PLACES = frozenset(
    {
        "state/dataset.py",  # says where files are
        "executors/verified.py",  # gives those that are as recorded
        "executors/verify.py",  # looks at them all
        "executors/file_check.py",  # compares one with its block
        "executors/past.py",  # the same, of what is replayed
        "executors/replay.py",
        "executors/restoration.py",
        "executors/recompute.py",
        "executors/kept.py",  # checks the one that it reads
        "state/drifted.py",  # looks at presence and size
        "app/explaining.py",  # look at presence before they ask for the file
        "app/tracing.py",
        "executors/testing/stage.py",  # counts
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
    "set_head": {"app/housekeeping", "app/undoing", "executors/compacting"},
    "swap": {"state/block_refs", "state/dataset"},
    "delete": {"state/block_refs", "state/workspace"},
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
