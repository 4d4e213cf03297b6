"""Private calls into Java: in one module and the folder of the JVM, and nowhere else."""

import ast
from pathlib import Path

import odfbuild
from odfbuild.executors.engine.spark.cluster import driver

SPARK = Path(driver.__file__).parents[1]
PRIVATE = {"_jvm", "_jdf", "_jsc", "_jconf", "_gateway", "_jsparkSession"}
"""Attributes of PySpark that lead into Java; sessions of Spark Connect have none of them."""


def private_of(module: Path) -> set[str]:
    tree = ast.parse(module.read_text("utf-8"))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE
    }


def imports_of(module: Path) -> set[str]:
    tree = ast.parse(module.read_text("utf-8"))
    return {
        str(name)
        for node in ast.walk(tree)
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }


def test_the_client_of_a_server_is_known_in_two_modules_only() -> None:
    found = {
        module.relative_to(SPARK).as_posix()
        for module in SPARK.rglob("*.py")
        if any(each.startswith("pyspark.sql.connect") for each in imports_of(module))
    }
    assert found == {"cluster/remote.py", "cluster/connect/channel.py"}


def test_contexts_are_used_where_executors_are_ours() -> None:
    """A session of a server has no context: steps do not ask for one."""
    found = {
        module.relative_to(SPARK).as_posix()
        for module in SPARK.rglob("*.py")
        if not module.is_relative_to(SPARK / "jvm")
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "sparkContext"
    }
    ours = {"driver", "executors", "spread"}
    assert found == {"session.py", *(f"cluster/{each}.py" for each in ours)}


def test_private_calls_are_in_one_module_and_the_folder_of_the_jvm() -> None:
    package = Path(odfbuild.__file__).parent
    found = {
        module.relative_to(SPARK).as_posix() if module.is_relative_to(SPARK) else str(module)
        for module in package.rglob("*.py")
        if "pyspark" in module.read_text("utf-8")
        and private_of(module)
        and not module.is_relative_to(SPARK / "jvm")
    }
    assert found == {"cluster/driver.py"}
