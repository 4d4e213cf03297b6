"""Run commands within this process, in a folder: no second interpreter, no JVM."""

import sys
from pathlib import Path

import pytest

from odfbuild.cli.main import main
from tests.support.projects import Done

__all__ = ["Within"]


class Within:
    """The commands of one folder; `folder` is where they are run."""

    def __init__(
        self, folder: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
    ) -> None:
        self.folder = folder
        self._capture = capture
        self._patch = patch

    def __call__(self, *arguments: str, **environment: str) -> Done:
        """Run one command to its end."""
        self._capture.readouterr()
        with self._patch.context() as patch, pytest.raises(SystemExit) as end:
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["odfbuild", *arguments])
            for name, value in environment.items():
                patch.setenv(name, value)
            main()
        said = self._capture.readouterr()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, said.out, said.err)

    def done(self, *arguments: str, **environment: str) -> str:
        """Run a command that has to succeed in silence; return what it printed."""
        done = self(*arguments, **environment)
        assert (done.code, done.err) == (0, ""), f"{done.code}: {done.err}"
        return done.out
