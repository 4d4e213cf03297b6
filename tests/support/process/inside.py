"""Run the command line without a JVM: within this process, or in one of its own.

`python -m tests.support.process.inside ARGUMENTS` is odfbuild with the engine of the tests in the
place of Spark.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from odfbuild.cli.main import main
from odfbuild.executors.engine.protocol import Engine
from odfbuild.executors.engine.spark import engine as spark
from tests.support.engines import FakeEngine
from tests.support.process.children import Children
from tests.support.projects import REPOSITORY, Done, environment

__all__ = ["Inside", "command", "heads", "lay_out", "without_jvm"]

_SELF = (sys.executable, "-m", "tests.support.process.inside")
_CHILDREN = Children(sparkless=True)


class Inside:
    """The commands of one project, run in this process; with Spark unless an engine is given."""

    def __init__(
        self,
        project: Path,
        capture: pytest.CaptureFixture[str],
        patch: pytest.MonkeyPatch,
        engine: Engine | None = None,
    ) -> None:
        self.project = project
        self._capture = capture
        self._patch = patch
        if engine is not None:
            patch.setattr(spark, "SparkEngine", lambda *_, **__: engine)

    def __call__(self, command: str, *arguments: str) -> Done:
        """Run one command to its end; one of a group is named with the word of that."""
        self._capture.readouterr()
        with self._patch.context() as patch, pytest.raises(SystemExit) as end:
            place = ["-C", str(self.project)]
            patch.setattr(sys, "argv", ["odfbuild", *command.split(), *place, *arguments])
            main()
        said = self._capture.readouterr()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, said.out, said.err)


def without_jvm(*arguments: str, cwd: Path, **more: str) -> Done:
    """Run odfbuild to its end in a process of its own, with the engine of the tests."""
    return _CHILDREN.run(arguments, cwd, environment(PYTHONPATH=str(REPOSITORY), **more))


def command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command line and environment of such a process, for those who start it."""
    return [*_SELF, *arguments], environment(PYTHONPATH=str(REPOSITORY))


def heads(project: Path) -> dict[str, str]:
    """Return the heads of all datasets by folder, straight from the files."""
    found = (project / ".odfbuild" / "datasets").glob("*/refs/head")
    return {path.parts[-3]: path.read_text("ascii") for path in found}


def lay_out(project: Path, files: Mapping[str, str | bytes | None]) -> Path:
    """Write files below a folder, delete those that are None; add what makes it a project."""
    given = {} if (project / "odfbuild.yaml").exists() else {"odfbuild.yaml": "odfbuild: 1\n"}
    for name, content in {**given, **files}.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    (project / "datasets").mkdir(exist_ok=True)
    return project


if __name__ == "__main__":
    spark.SparkEngine = lambda *_, **__: FakeEngine()  # type: ignore[assignment, misc]
    main()
