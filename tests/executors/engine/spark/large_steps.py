"""The command line with every step of Spark as a large one, however few its rows are.

`python -m tests.executors.engine.spark.large_steps COMMAND ...`
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from odfbuild.cli.main import program
from odfbuild.executors.engine.spark.engine import SparkEngine

__all__ = ["large_steps"]


@contextmanager
def large_steps() -> Iterator[None]:
    """Have engines that are made within the block take every step for a large one."""
    usual = SparkEngine.__init__.__kwdefaults__
    with mock.patch.dict(usual, {"limit": -1}):
        yield


if __name__ == "__main__":
    with large_steps():
        program()
