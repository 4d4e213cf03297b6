"""The checkpoint that goes from one message to the next: what an engine needs of earlier steps.

Messages bring new records only, so all else is in here: how far time has come at each input, the
columns that the query first saw, and, for a query that looks at more than one row, the records
that were read and written so far.  It is one file (tar, not packed), equal for equal steps.
"""

import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from odfbuild.errors import EngineError, OdfBuildError
from odfbuild.host.files import open_regular
from odfbuild.host.json_text import parse_json
from odfbuild.odf.events import DataSchema, TransformSql
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.errors import ManifestErrors
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass

_FORMAT: Final = 1
_STATE: Final = "state.json"
_MOST_BYTES: Final = 1 << 26  # of the state itself: the rest is files
_COPIED: Final = 1 << 20


class BadCheckpointError(EngineError):
    """A file that is given as a checkpoint is not one, or has another format."""

    code = "bad-checkpoint"


@dataclass(frozen=True, slots=True)
class InputState:
    """What is known of an input: its watermark, its columns when first read, its records."""

    watermark: Timestamp | None
    schema: DataSchema
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """Where a dataset stands after a step.

    `schema` is that of the result and `output` its records.  `has_rows` tells that all records are
    here, which those of a query that looks at one row at a time are not.
    """

    transform: TransformSql
    schema: DataSchema
    watermark: Timestamp | None
    inputs: Mapping[DatasetId, InputState]
    output: tuple[Path, ...] = ()
    has_rows: bool = field(default=False)


def write_state(state: StepState, path: Path) -> None:
    """Write a checkpoint into a file."""
    inputs = []
    members: list[tuple[str, Path]] = []
    for number, (dataset, each) in enumerate(state.inputs.items()):
        names = _names(f"input-{number}", each.files)
        members += zip(names, each.files, strict=True)
        inputs.append(
            {
                "datasetId": str(dataset),
                "watermark": _text(each.watermark),
                "schema": to_mapping(each.schema),
                "files": names,
            }
        )
    outputs = _names("output", state.output)
    members += zip(outputs, state.output, strict=True)
    found = {
        "format": _FORMAT,
        "transform": to_mapping(state.transform),
        "schema": to_mapping(state.schema),
        "watermark": _text(state.watermark),
        "inputs": inputs,
        "output": outputs,
        "hasRows": state.has_rows,
    }
    data = json.dumps(found, ensure_ascii=False, sort_keys=True).encode()
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as packed:
        packed.addfile(_member(_STATE, len(data)), io.BytesIO(data))
        for name, file in members:
            with open_regular(file) as content:
                packed.addfile(_member(name, file.stat().st_size), content)


def read_state(path: Path, into: Path) -> StepState:
    """Return what a checkpoint says, its files put into a folder.  Raises BadCheckpointError."""
    try:
        with open_regular(path) as file, tarfile.open(fileobj=file, mode="r:") as packed:
            found = _state(packed)
            return _read(found, dict(_files(packed, found, into)))
    except (
        *(OSError, tarfile.TarError, ValueError, LookupError, TypeError, AttributeError),
        *(RecursionError, OdfBuildError, ManifestErrors),
    ) as error:
        raise BadCheckpointError(
            what=f"{path} is not a readable checkpoint: {_said(error)}",
            why="the engine continues from what it wrote after the last step",
            fix="give the file that the last step wrote, or none to start over",
        ) from None


def _state(packed: tarfile.TarFile) -> Mapping[str, Any]:
    member = packed.getmember(_STATE)
    content = packed.extractfile(member)
    if content is None or member.size > _MOST_BYTES:
        raise ValueError(f"its {_STATE} is no file of this size")
    found = parse_json(content.read())
    if found["format"] != _FORMAT:
        raise ValueError(f"its format is {found['format']!r}, and {_FORMAT} is known")
    return dict(found)


def _files(
    packed: tarfile.TarFile, found: Mapping[str, Any], into: Path
) -> Iterator[tuple[str, Path]]:
    """Put the files into the folder, under names of our own."""
    wanted = [name for each in found["inputs"] for name in each["files"]] + list(found["output"])
    for number, name in enumerate(wanted):
        content = packed.extractfile(packed.getmember(name))
        if content is None:
            raise ValueError(f"its {name} is no file")
        target = into / f"before-{number}.parquet"
        with content, target.open("xb") as out:
            while block := content.read(_COPIED):
                out.write(block)
        yield name, target


def _read(found: Mapping[str, Any], files: Mapping[str, Path]) -> StepState:
    inputs = {
        DatasetId.parse(each["datasetId"]): InputState(
            watermark=_time(each["watermark"]),
            schema=from_mapping(DataSchema, each["schema"]),
            files=tuple(files[name] for name in each["files"]),
        )
        for each in found["inputs"]
    }
    return StepState(
        transform=from_mapping(TransformSql, found["transform"]),
        schema=from_mapping(DataSchema, found["schema"]),
        watermark=_time(found["watermark"]),
        inputs=inputs,
        output=tuple(files[name] for name in found["output"]),
        has_rows=bool(found["hasRows"]),
    )


def _names(start: str, files: Sequence[Path]) -> list[str]:
    return [f"{start}-{number}.parquet" for number in range(len(files))]


def _member(name: str, size: int) -> tarfile.TarInfo:
    """Return what a tar says of a file; nothing of whose it is and when it was made."""
    made = tarfile.TarInfo(name)
    made.size = size
    return made


def _text(time: Timestamp | None) -> str | None:
    return None if time is None else str(time)


def _time(text: str | None) -> Timestamp | None:
    return None if text is None else Timestamp.parse(text)


def _said(error: Exception) -> str:
    match error:
        case OSError(strerror=str() as said):
            return said
        case KeyError():
            return f"{error.args[0]} is missing" if error.args else "a file is missing"
        case _:
            return str(error)
