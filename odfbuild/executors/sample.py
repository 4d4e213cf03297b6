"""Look at the beginning of a file and guess how it is read: format, columns, types.

What is guessed is meant to be looked at by a person; what cannot be told is left out and said so.
"""

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from odfbuild.errors import ProjectError

__all__ = ["MAX_SAMPLE", "Sample", "SampledColumn", "UnsampledError", "sql_name", "take_sample"]

MAX_SAMPLE: Final = 16 * 1024 * 1024
_LINES: Final = (".ndjson", ".jsonl")
_DOCUMENTS: Final = (".json", ".geojson")

Plain: TypeAlias = Any
"""A value as YAML has it."""


class UnsampledError(ProjectError):
    """A file is not data that could be read, or too little of it is there to tell."""

    code = "no-sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledColumn:
    """A column: its type as Arrow has it, and its values in the sample as they are written."""

    name: str
    type: Any
    values: Sequence[object]

    @property
    def ddl(self) -> str:
        """The column as a read schema declares it."""
        import pyarrow as pa

        from odfbuild.odf.arrow import from_arrow
        from odfbuild.odf.ddl import to_ddl

        return to_ddl(from_arrow(pa.schema([pa.field(self.name, self.type)])))[0]

    @property
    def is_time(self) -> bool:
        import pyarrow as pa

        return bool(pa.types.is_date(self.type) or pa.types.is_timestamp(self.type))

    @property
    def is_key(self) -> bool:
        """Tell whether each row has a value of its own here, of a type that keys may have."""
        import pyarrow as pa

        return (
            len(self.values) > 0
            and not pa.types.is_nested(self.type)
            and not pa.types.is_floating(self.type)
            and not pa.types.is_boolean(self.type)
            and None not in self.values
            and len(set(map(str, self.values))) == len(self.values)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How a file is read: `read` and `prepare` as a manifest has them, but for the schema.

    `query` is what makes `columns` of `read_as`, the columns as read, when they differ.  `notes`
    are what should be looked at.
    """

    read: Mapping[str, Plain]
    columns: tuple[SampledColumn, ...]
    rows: int
    notes: tuple[str, ...] = ()
    prepare: Sequence[Mapping[str, Plain]] = ()
    read_as: tuple[SampledColumn, ...] | None = None
    query: str | None = None


def sql_name(name: str) -> str:
    """Return a name as a query has it, in backticks if it needs them."""
    plain = name.isascii() and name.isidentifier()
    return name if plain else "`" + name.replace("`", "``") + "`"


def take_sample(data: bytes, name: str, *, whole: bool) -> Sample:
    """Return what the beginning of a file shows; `whole` if it is all of it.

    Raises UnsampledError when nothing can be told.
    """
    if data.startswith(b"\x1f\x8b"):
        found = _sample(_unzipped(data, name), name.removesuffix(".gz"), whole=whole)
        return replace(found, prepare=({"kind": "Decompress", "format": "Gzip"},))
    if data.startswith(b"PK\x03\x04"):
        return _of_archive(data, name, whole=whole)
    return _sample(data, name, whole=whole)


def _sample(data: bytes, name: str, *, whole: bool) -> Sample:
    lower = name.lower()
    if data.startswith(b"PAR1"):
        from odfbuild.executors.sample_parquet import sample_parquet

        return sample_parquet(data, name, whole=whole)
    if lower.endswith((*_LINES, *_DOCUMENTS)) or data.lstrip()[:1] in (b"[", b"{"):
        from odfbuild.executors.sample_json import sample_json

        return sample_json(data, name, whole=whole)
    from odfbuild.executors.sample_csv import sample_csv

    return sample_csv(data, name, whole=whole)


def _unzipped(data: bytes, name: str) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(data, MAX_SAMPLE)
    except zlib.error as error:
        raise UnsampledError(
            what=f"{name} is no gzip file",
            why=str(error),
            fix="check the file",
        ) from None


def _of_archive(data: bytes, name: str, *, whole: bool) -> Sample:
    """Take the first file of an archive; it is named if there are others."""
    try:
        if not whole:
            raise zipfile.BadZipFile("its table of contents is at its end")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [each for each in archive.namelist() if not each.endswith("/")]
            with archive.open(names[0]) as file:
                inner = file.read(MAX_SAMPLE)
            complete = archive.getinfo(names[0]).file_size <= MAX_SAMPLE
    except (zipfile.BadZipFile, IndexError, RuntimeError, NotImplementedError) as error:
        raise UnsampledError(
            what=f"{name} is an archive that cannot be looked into",
            why=str(error) or "it is empty",
            fix="unpack it, and name the file in it",
        ) from None
    step = {"kind": "Decompress", "format": "Zip"}
    if len(names) > 1:
        step["subPath"] = names[0]
    return replace(_sample(inner, names[0], whole=complete), prepare=(step,))
