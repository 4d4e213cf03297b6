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
