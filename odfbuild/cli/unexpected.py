"""Failures that no layer turned into words of its own."""

from odfbuild.errors import OdfBuildError

__all__ = ["SystemFailedError"]


class SystemFailedError(OdfBuildError):
    """The operating system refused something outside of the steps of a run."""

    code = "system"

    def __init__(self, error: OSError) -> None:
        place = f": {error.filename}" if error.filename else ""
        super().__init__(
            what=f"{error.strerror or error}{place}",
            why="the operating system refused to read or write a file",
            fix="check that the path is right, may be used, and that the disk has room",
        )
