"""Prepare what was fetched: decompress it and pipe it through commands, streamed and bounded.

Steps are applied in turn, each on the result of the one before.  The specification knows gzip and
zip; bzip2, xz and zstd are spelled as the Pipe step that unpacks them everywhere, `[xz, -dc]`, and
are unpacked here without the program.  What grows without measure is refused before it fills
the disk.
"""

import os
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from odfbuild.executors.pipe import PipeError, Surroundings, pipe
from odfbuild.executors.unpack import (
    DamagedArchiveError,
    bunzip,
    gunzip,
    unxz,
    unzip,
    unzstd,
)
from odfbuild.executors.unpackers import unpacker_of
from odfbuild.odf.events import CompressionFormat, PrepStep, PrepStepDecompress, PrepStepPipe

__all__ = ["DamagedArchiveError", "PipeError", "Surroundings", "prepare"]

_LARGEST: Final = 256 << 30
_RATIO: Final = 250
_RATIO_FROM: Final = 256 << 20
_UNPACK: Final = {"bzip2": bunzip, "xz": unxz, "zstd": unzstd}


def prepare(
    steps: Sequence[PrepStep],
    path: Path,
    staging: Path,
    *,
    name: str | None = None,
    around: Surroundings | None = None,
) -> Path:
    """Return the file after all steps, in `staging`; without steps the given one.

    `name` is how messages call the file; `around` is where commands run, by default here.  Raises
    DamagedArchiveError, PipeError and BadLimitError.
    """
    shown = name or path.name
    given = path
    for step in steps:
        blocks = _blocks(step, path, shown, around or Surroundings(Path.cwd(), os.environ))
        before, path = path, _write(blocks, path, staging, shown)
        if before != given:
            before.unlink()
    return path


def _blocks(step: PrepStep, path: Path, name: str, around: Surroundings) -> Iterator[bytes]:
    match step:
        case PrepStepDecompress(format=CompressionFormat.GZIP):
            return gunzip(path, name)
        case PrepStepDecompress(sub_path=wanted):
            return unzip(path, wanted, name)
        case PrepStepPipe(command=command):
            kind = unpacker_of(command)
            return pipe(command, path, name, around) if kind is None else _UNPACK[kind](path, name)


def _write(blocks: Iterator[bytes], packed: Path, staging: Path, name: str) -> Path:
    """Write blocks to a new file of the staging folder, within limits."""
    size = packed.stat().st_size
    written = 0
    with tempfile.NamedTemporaryFile(dir=staging, prefix="unpacked-", delete=False) as out:
        try:
            with closing(_iterated(blocks)) as each:
                for block in each:
                    written += len(block)
                    _check_size(written, size, name)
                    out.write(block)
        except BaseException:
            Path(out.name).unlink()
            raise
    return Path(out.name)


def _iterated(blocks: Iterator[bytes]) -> Generator[bytes, None, None]:
    """Make one that can be closed of any iterator."""
    yield from blocks


def _check_size(unpacked: int, packed: int, name: str) -> None:
    if unpacked > _LARGEST or (unpacked > _RATIO_FROM and unpacked > _RATIO * packed):
        raise DamagedArchiveError(
            what=f"{name} gives more than {unpacked >> 20} MiB out of {packed} bytes",
            why=f"over {_LARGEST >> 30} GiB, or over {_RATIO} times the size: "
            "this looks like a decompression bomb",
            fix="if it is none, unpack it yourself and name the unpacked file in `fetch`",
        )
