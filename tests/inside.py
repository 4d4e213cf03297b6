"""Run the command line within this process, with an engine that the test gives.

`python -m tests.inside ARGUMENTS` does the same in a process of its own, without a JVM.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odfbuild.cli.main import main
from odfbuild.executors.spark import engine as spark
from tests.engines import FakeEngine
from tests.projects import Done

__all__ = ["Inside", "lay_out"]


class Inside:
    """The commands of one project; `engine` stands in for Spark where it is given."""

    def __init__(
        self,
        root: Path,
        capture: pytest.CaptureFixture[str],
        patch: pytest.MonkeyPatch,
        engine: Any = None,
    ) -> None:
        self.root = root
        self._capture = capture
        self._patch = patch
        if engine is not None:
            patch.setattr(spark, "SparkEngine", lambda *_, **__: engine)

    def __call__(self, command: str, *arguments: str) -> Done:
        """Run one command to its end."""
        self._capture.readouterr()
        line = ["odfbuild", command, "-C", str(self.root), *arguments]
        with self._patch.context() as patch, pytest.raises(SystemExit) as end:
            patch.setattr(sys, "argv", line)
            main()
        said = self._capture.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Done(code, said.out, said.err)

    def heads(self) -> dict[str, str]:
        """Return the heads of all datasets by folder, straight from the files."""
        found = (self.root / ".odfbuild" / "datasets").glob("*/refs/head")
        return {path.parts[-3]: path.read_text("ascii") for path in found}


def lay_out(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a folder, and a project file unless there is one."""
    for name, content in {"odfbuild.yaml": "odfbuild: 1\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (root / "datasets").mkdir(exist_ok=True)
    return root


@contextmanager
def without_jvm() -> Iterator[None]:
    """Let the commands of this process use the engine of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
        yield


if __name__ == "__main__":
    with without_jvm():
        main()
