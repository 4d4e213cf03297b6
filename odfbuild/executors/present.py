"""Data files that are gone are named before anything stumbles over them."""

from collections.abc import Iterable
from pathlib import Path

from odfbuild.errors import StateError
from odfbuild.executors.engine import TransformWork

__all__ = ["LostDataError", "check_inputs", "check_present"]


class LostDataError(StateError):
    """A data file that blocks name is not there."""

    code = "lost-data"

    def __init__(self, missing: Path, owner: str) -> None:
        super().__init__(
            what=f"a data file of {owner} is missing: {missing.name}",
            why="its chain names the file, and so do rows that were made of it",
            fix="odfbuild verify lists all that is missing; of a derivative dataset it can be made "
            "again: odfbuild rebuild NAME --restore; else restore it from a copy",
        )
        self.missing = missing


def check_present(paths: Iterable[Path], owner: str) -> None:
    """Raise LostDataError for the first of the data files of a dataset that is not there."""
    for path in paths:
        if not path.exists():
            raise LostDataError(path, owner)


def check_inputs(work: TransformWork) -> None:
    """Raise LostDataError for the first file that a step would read in vain."""
    for source in work.inputs:
        check_present((*source.past, *source.paths), f"the input {source.alias}")
    check_present(work.output, "the dataset itself")
