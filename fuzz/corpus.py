"""The inputs that runs start from: a text file for each target, an input in base64 a line."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

__all__ = ["load", "save"]

_FOLDER = Path(__file__).parent / "corpus"


def load(target: str) -> list[bytes]:
    """Return the inputs of a target."""
    return [b64decode(line) for line in _file(target).read_text("ascii").splitlines()]


def save(target: str, inputs: Iterable[bytes]) -> None:
    """Replace the inputs of a target, the shortest first."""
    lines = [b64encode(each).decode() for each in sorted(set(inputs), key=lambda x: (len(x), x))]
    _file(target).write_text("".join(f"{line}\n" for line in lines), "ascii")


def _file(target: str) -> Path:
    return _FOLDER / f"{target}.txt"
