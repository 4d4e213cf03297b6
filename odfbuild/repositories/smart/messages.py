"""Messages of the smart transfer protocol, as the reference implementation sends them.

Each message is one text frame of JSON; its place in the conversation says which one it is.  Names
are in snake case, hashes are multibase text, times RFC 3339, bytes an array of numbers.  An answer
is `{"Ok": {...}}` or `{"Err": {"Variant": {...}}}`.

    pull   C PullRequest           S PullPlan | failure
           C PullBlocksRequest     S PullBlocks                 only if there are blocks
           C PullObjectsRequest    S PullObjects                any number of times
    push   C PushRequest           S PushAccepted | failure
           C PushBlocks            S PushBlocksAccepted | failure
           C PushObjectsRequest    S PushObjects | failure      again while `is_truncated`
           S PushProgressRequest   C PushProgress               every 10 s, and at the end unasked
           C PushCompleteRequest   S PushComplete

What is read may be of any age: fields that are not known are ignored, an optional one that is
missing is null, an answer may come without `Ok` as in versions of 2024, and what these did not send
(`force_update_if_diverged`, `visibility_for_created_dataset`, `phase`) has the meaning that it had.
Everything else that is missing or of another type is a MalformedMessageError.
"""

import json
import re
from dataclasses import MISSING, field, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from itertools import islice
from types import NoneType, UnionType
from typing import Any, ClassVar, NewType, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from odfbuild.errors import ProtocolError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import Multihash
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

VERSION_HEADER = "x-odf-smtp-version"
VERSION = "1"
MEDIA_TYPE = "application/tar+gzip"
ENCODING = "raw"

_PIECE = 1 << 16  # characters of a payload that are read at once
_LONGEST_HASH = 512  # characters
_NUMBERS = [str(each) for each in range(256)]
_PAYLOAD = re.compile(rb'"payload"\s*:\s*\[')
_OTHERS = b"0123456789, \t\r\n"
_CUT = b"(payload)"

U32 = NewType("U32", int)
U64 = NewType("U64", int)
_SENT = {"sent": True}  # by all versions, so it has a default for those who write it alone
_OWN = {"own": True}  # known to odfbuild alone
_HIGHEST = {U32: (1 << 32) - 1, U64: (1 << 64) - 1}


class MalformedMessageError(ProtocolError):
    """A message is not the one expected at this point of the exchange."""

    code = "malformed-message"

    def __init__(self, expected: str, why: str) -> None:
        super().__init__(
            what=f"not a valid {expected} of the smart transfer protocol: {why}",
            why="a transfer stops at an unexpected message; nothing was changed",
            fix="check that the URL is that of a dataset on a server of this protocol, and that "
            "no proxy changes its messages",
        )


class ObjectType(Enum):
    """What an object is."""

    DATA_SLICE = "DataSlice"
    CHECKPOINT = "Checkpoint"


class PullMethod(Enum):
    """How a client gets an object."""

    HTTP_DOWNLOAD = "HttpDownload"


class PushMethod(Enum):
    """How a server gets an object: not at all if it has it."""

    SKIP = "SkipUpload"
    HTTP_UPLOAD = "HttpUpload"


class Visibility(Enum):
    """Who may see a dataset that a push makes."""

    PRIVATE = "Private"
    PUBLIC = "Public"


# parts of messages


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlan:
    """What a transfer is about to move: blocks and objects, their bytes, and records of data."""

    num_blocks: U32
    num_objects: U32
    num_records: U64
    bytes_in_raw_blocks: U64
    bytes_in_raw_objects: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBlocksBatch:
    """Blocks in one archive, see `archive`."""

    num_blocks: U32
    media_type: str = field(default=MEDIA_TYPE, metadata=_SENT)
    encoding: str = field(default=ENCODING, metadata=_SENT)
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFileReference:
    """An object as its block speaks of it; `size` in bytes."""

    object_type: ObjectType
    physical_hash: Multihash
    size: U64


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """A header of HTTP that is sent as it is."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferUrl:
    """Where an object is read or written by HTTP, until when; None is without end."""

    url: str
    headers: tuple[HeaderRow, ...]
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullStrategy:
    """How to get an object."""

    object_file: ObjectFileReference
    pull_strategy: PullMethod = field(default=PullMethod.HTTP_DOWNLOAD, metadata=_SENT)
    download_from: TransferUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class PushStrategy:
    """Whether and how to send an object."""

    object_file: ObjectFileReference
    push_strategy: PushMethod
    upload_to: TransferUrl | None = None


# pull


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """Asks for the blocks in (begin_after, stop_at]; None is the seed, and the head."""

    begin_after: Multihash | None = None
    stop_at: Multihash | None = None
    force_update_if_diverged: bool = False


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What is about to come."""

    answers: ClassVar[bool] = True
    transfer_plan: TransferPlan


@dataclass(frozen=True, slots=True)
class PullBlocksRequest:
    """Asks for the blocks."""


@dataclass(frozen=True, slots=True)
class PullBlocks:
    """The blocks that were asked for."""

    blocks: MetadataBlocksBatch


@dataclass(frozen=True, slots=True)
class PullObjectsRequest:
    """Asks where objects are."""

    object_files: tuple[ObjectFileReference, ...]


@dataclass(frozen=True, slots=True)
class PullObjects:
    """Where the objects are that were asked for."""

    object_transfer_strategies: tuple[PullStrategy, ...]


# push


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest:
    """Says what is about to be sent, and which head it goes on from; None of a new dataset."""

    current_head: Multihash | None = None
    transfer_plan: TransferPlan
    force_update_if_diverged: bool = False
    visibility_for_created_dataset: Visibility = Visibility.PRIVATE


@dataclass(frozen=True, slots=True)
class PushAccepted:
    """The blocks may be sent."""

    answers: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PushBlocks:
    """The new blocks; `attestation` is the text of what signs the last of them, `delegations` that
    of the dataset's list of delegations.

    These two are fields that only odfbuild knows.
    """

    new_blocks: MetadataBlocksBatch
    attestation: str | None = field(default=None, metadata=_OWN)
    delegations: str | None = field(default=None, metadata=_OWN)


@dataclass(frozen=True, slots=True)
class PushBlocksAccepted:
    """The blocks can follow what the server has."""

    answers: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PushObjectsRequest:
    """Asks how to send objects; `is_truncated` says that another round follows."""

    object_files: tuple[ObjectFileReference, ...]
    is_truncated: bool = field(default=False, metadata=_SENT)


@dataclass(frozen=True, slots=True)
class PushObjects:
    """How to send the objects that were asked for."""

    answers: ClassVar[bool] = True
    object_transfer_strategies: tuple[PushStrategy, ...]


@dataclass(frozen=True, slots=True)
class PushProgressRequest:
    """Asks how far the client is."""


@dataclass(frozen=True, slots=True)
class UploadsRunning:
    """So many objects were sent."""

    uploaded_objects_count: U64


@dataclass(frozen=True, slots=True)
class UploadsComplete:
    """All objects were sent."""


UploadDetails: TypeAlias = UploadsRunning | UploadsComplete


@dataclass(frozen=True, slots=True)
class PushProgress:
    """How far the client is."""

    details: UploadDetails


@dataclass(frozen=True, slots=True)
class PushCompleteRequest:
    """Asks to make the new head the head."""


@dataclass(frozen=True, slots=True)
class PushComplete:
    """The new head is the head."""


# failures


class Phase(Enum):
    """How far a transfer had come."""

    INITIAL_REQUEST = "InitialRequest"
    METADATA_REQUEST = "MetadataRequest"
    OBJECTS_REQUEST = "ObjectsRequest"
    ENSURING_TARGET_EXISTS = "EnsuringTargetExists"
    OBJECTS_UPLOAD_PROGRESS = "ObjectsUploadProgress"
    COMPLETE_REQUEST = "CompleteRequest"


@dataclass(frozen=True, slots=True)
class PullPhase:
    """A phase of a pull."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class PushPhase:
    """A phase of a push."""

    phase: Phase


TransferPhase: TypeAlias = PullPhase | PushPhase


@dataclass(frozen=True, slots=True)
class InvalidInterval:
    """The blocks after `tail` do not lead to `head`."""

    head: Multihash
    tail: Multihash


@dataclass(frozen=True, slots=True)
class InvalidHead:
    """The server is at `expected_head`; the client believed `actual_head`.  So they are called."""

    actual_head: Multihash | None
    expected_head: Multihash | None


@dataclass(frozen=True, slots=True)
class SeedBlockOverwriteRestricted:
    """The blocks begin with the Seed of another dataset."""


@dataclass(frozen=True, slots=True)
class RefCollision:
    """The dataset is on the server under another name."""

    dataset_id: str


@dataclass(frozen=True, slots=True)
class NameCollision:
    """Another dataset has the name on the server."""

    dataset_alias: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFailed:
    """The server gave up, and where; its variant is called `Internal`."""

    phase: TransferPhase | None = None
    error_message: str


@dataclass(frozen=True, slots=True)
class UnknownFailure:
    """A refusal that this program does not know, by its name."""

    variant: str


Failure: TypeAlias = (
    InvalidInterval
    | InvalidHead
    | SeedBlockOverwriteRestricted
    | RefCollision
    | NameCollision
    | TransferFailed
    | UnknownFailure
)
_FAILURES: dict[str, type[Any]] = {
    "InvalidInterval": InvalidInterval,
    "InvalidHead": InvalidHead,
    "SeedBlockOverwriteRestricted": SeedBlockOverwriteRestricted,
    "RefCollision": RefCollision,
    "NameCollision": NameCollision,
    "Internal": TransferFailed,
}
_VARIANTS = {cls: name for name, cls in _FAILURES.items()}
_T = TypeVar("_T")


# writing


def encode(message: object) -> str:
    """Return the text of a message, in the form that the newest versions send.

    An answer is put behind `Ok`, a failure behind `Err`.
    """
    cls = type(message)
    if cls in _VARIANTS:
        return f'{{"Err":{{"{_VARIANTS[cls]}":{_text(message)}}}}}'
    if getattr(cls, "answers", False):
        return f'{{"Ok":{_text(message)}}}'
    return _text(message)


def _text(value: Any) -> str:
    match value:
        case None | bool() | str() | int():
            return json.dumps(value)
        case bytes():
            return f"[{','.join(map(_NUMBERS.__getitem__, value))}]"
        case Multihash():
            return f'"{value}"'
        case datetime():
            return json.dumps(value.astimezone(UTC).isoformat().replace("+00:00", "Z"))
        case Enum():
            return json.dumps(value.value)
        case tuple():
            return f"[{','.join(map(_text, value))}]"
        case UploadsRunning():
            return f'{{"Running":{_fields(value)}}}'
        case UploadsComplete():
            return '"Complete"'
        case PullPhase():
            return f'{{"Pull":{_text(value.phase)}}}'
        case PushPhase():
            return f'{{"Push":{_text(value.phase)}}}'
    return _fields(value)


def _fields(value: Any) -> str:
    """Return an object of all fields; of those that only odfbuild knows, what is not null."""
    given = ((each, getattr(value, each.name)) for each in fields(value))
    texts = (
        f'"{each.name}":{_text(item)}'
        for each, item in given
        if item is not None or not each.metadata.get("own")
    )
    return f"{{{','.join(texts)}}}"


# reading


def decode(cls: type[_T], frame: str | bytes) -> _T:
    """Read a message that is no answer.  Raises MalformedMessageError."""
    found = _read(cls, *_parse(cls, frame))
    assert isinstance(found, cls)  # noqa: S101 - for types
    return found


def decode_answer(cls: type[_T], frame: str | bytes) -> _T | Failure:
    """Read an answer, behind `Ok` or without it, or a failure.  Raises MalformedMessageError."""
    form, payload = _parse(cls, frame)
    if isinstance(form, dict) and "Err" in form:
        return _failure(form["Err"])
    if isinstance(form, dict) and "Ok" in form:
        form = form["Ok"]
    found = _read(cls, form, payload)
    assert isinstance(found, cls)  # noqa: S101 - for types
    return found


def decode_reason(reason: str) -> Failure | None:
    """Read why a connection was closed: the answer that was due, or what is left of its text.

    A reason has room for 123 bytes, so the text of an answer may end anywhere.
    """
    try:
        form = parse_json(reason)
        if isinstance(form, dict) and "Err" in form:
            return _failure(form["Err"])
    except (ValueError, ProtocolError):
        pass
    found = re.search(r'"Err"\s*:\s*\{?\s*"(\w+)"', reason)
    if found is None:
        return TransferFailed(error_message=reason) if reason.strip() else None
    variant, rest = found[1], reason[found.end() :]
    said = re.findall(r'"(?:error_message|dataset_id|dataset_alias)"\s*:\s*"([^"]*)', rest)
    match variant:
        case "RefCollision":
            return RefCollision("".join(said[:1]))
        case "NameCollision":
            return NameCollision("".join(said[:1]))
        case "SeedBlockOverwriteRestricted":
            return SeedBlockOverwriteRestricted()
        case "InvalidHead" | "InvalidInterval":  # its hashes are cut off
            return UnknownFailure(variant)
    return TransferFailed(error_message=said[0] if said else variant)


def _failure(form: Any) -> Failure:
    if isinstance(form, str):
        form = {form: {}}
    if not isinstance(form, dict) or len(form) != 1:
        raise MalformedMessageError("answer", "`Err` has not one variant")
    ((variant, content),) = form.items()
    cls = _FAILURES.get(variant)
    if cls is None:
        return UnknownFailure(excerpt(variant, 100))
    found: Failure = _read(cls, {} if content is None else content, None)
    return found


def _parse(cls: type[Any], frame: str | bytes) -> tuple[Any, bytes | None]:
    """Return what a frame holds, with a payload apart: as a list of numbers it takes much room."""
    try:
        data = frame.encode() if isinstance(frame, str) else frame
        if cls in (PullBlocks, PushBlocks) and (cut := _cut(data)) is not None:
            return cut
        return parse_json(data, parse_constant=_refuse_constant), None
    except ValueError as error:
        raise MalformedMessageError(_name(cls), f"it is no JSON text: {error}") from None


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no value")


def _cut(data: bytes) -> tuple[Any, bytes] | None:
    """Take the only payload out of a text; None if there is none, or several.

    A quote within a text of JSON has a backslash before it, so what is found is a name.
    """
    found = list(islice(_PAYLOAD.finditer(data), 2))
    end = data.find(b"]", found[0].end()) if len(found) == 1 else -1
    if end < 0 or _CUT in data:
        return None
    rest = data[: found[0].end() - 1] + b'"%b"' % _CUT + data[end + 1 :]
    form = parse_json(rest, parse_constant=_refuse_constant)
    return form, _numbers(data, found[0].end(), end)


def _numbers(data: bytes, start: int, end: int) -> bytes:
    """Read numbers between commas.  Raises ValueError."""
    out = bytearray()
    at = start
    while at < end:
        to = data.find(b",", at + _PIECE, end)
        piece = data[at : end if to < 0 else to]
        if piece.translate(None, _OTHERS):
            raise ValueError("a payload is an array of numbers from 0 to 255")
        out += bytes(json.loads(b"[%b]" % piece))
        if to == end - 1:
            raise ValueError("a payload ends with a comma")
        at = end if to < 0 else to + 1
    return bytes(out)


def _name(cls: type[Any]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()


@cache
def _types(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {each.name: hints[each.name] for each in fields(cls)}


def _read(cls: type[Any], form: Any, payload: bytes | None) -> Any:
    if not isinstance(form, dict):
        raise MalformedMessageError(_name(cls), "it is not a JSON object")
    values = {}
    types = _types(cls)  # type: ignore[arg-type]
    for each in fields(cls):
        if each.name in form and not (form[each.name] is None and each.default is not MISSING):
            try:
                values[each.name] = _value(types[each.name], form[each.name], payload)
            except (ValueError, TypeError) as error:
                raise MalformedMessageError(_name(cls), f"`{each.name}` {error}") from None
        elif each.default is MISSING or each.metadata.get("sent"):
            if NoneType not in get_args(types[each.name]):
                raise MalformedMessageError(_name(cls), f"it has no `{each.name}`")
            values[each.name] = None
    return cls(**values)


def _value(wanted: Any, form: Any, payload: bytes | None) -> Any:  # noqa: PLR0912 - a line a type
    """Read the value of a field.  Raises ValueError with what is wrong with it."""
    if wanted == UploadDetails:
        return _details(form)
    if get_origin(wanted) is UnionType or NoneType in get_args(wanted):
        if form is None:
            return None
        wanted = _without_none(wanted)
    if wanted == TransferPhase:
        return _phase(form)
    if get_origin(wanted) is tuple:
        if not isinstance(form, list):
            raise ValueError("is no array")
        return tuple(_value(get_args(wanted)[0], each, payload) for each in form)
    if wanted in _HIGHEST:
        return _count(form, _HIGHEST[wanted])
    if wanted is bytes:
        return _bytes(form, payload)
    if wanted is Multihash:
        return _hash(form)
    if wanted is datetime:
        return _time(form)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _one_of(wanted, form)
    if is_dataclass(wanted):
        return _read(wanted, form, payload)  # type: ignore[arg-type]
    if not isinstance(form, wanted):
        raise ValueError(f"is no {'text' if wanted is str else 'truth value'}")
    return form


def _without_none(wanted: Any) -> Any:
    left = [each for each in get_args(wanted) if each is not NoneType]
    return left[0] if len(left) == 1 else TransferPhase


def _count(form: Any, highest: int) -> int:
    if not isinstance(form, int) or isinstance(form, bool) or not 0 <= form <= highest:
        raise ValueError(f"is no whole number from 0 to {highest:,}")
    return form


def _bytes(form: Any, payload: bytes | None) -> bytes:
    if form == _CUT.decode() and payload is not None:
        return payload
    if not isinstance(form, list) or any(type(each) is not int for each in form):
        raise ValueError("is no array of numbers")
    try:
        return bytes(form)
    except ValueError:
        raise ValueError("has numbers that are no bytes") from None


def _hash(form: Any) -> Multihash:
    if not isinstance(form, str) or len(form) > _LONGEST_HASH:
        raise ValueError("is no hash")
    try:
        return Multihash.parse(form)
    except ProtocolError as error:
        raise ValueError(f"is no hash: {error.why}") from None


def _time(form: Any) -> datetime:
    """Read RFC 3339, of which more digits of a second than six are left out."""
    if not isinstance(form, str):
        raise ValueError("is no time")
    try:
        found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", form))
    except ValueError:
        raise ValueError("is no time of RFC 3339") from None
    if found.tzinfo is None:
        raise ValueError("is a time without a zone")
    return found


def _one_of(wanted: type[Enum], form: Any) -> Enum:
    try:
        return wanted(form)
    except ValueError:
        known = ", ".join(str(each.value) for each in wanted)
        raise ValueError(f"is none of {known}") from None


def _details(form: Any) -> UploadDetails:
    if form == "Complete" or (isinstance(form, dict) and "Complete" in form):
        return UploadsComplete()
    if isinstance(form, dict) and "Running" in form:
        found = _read(UploadsRunning, form["Running"], None)
        assert isinstance(found, UploadsRunning)  # noqa: S101 - for types
        return found
    raise ValueError("is neither Running nor Complete")


def _phase(form: Any) -> TransferPhase | None:
    """Read a phase; None of one that is not known, as it is for messages only."""
    if not isinstance(form, dict):
        return None
    for name, cls in (("Pull", PullPhase), ("Push", PushPhase)):
        if name in form:
            try:
                return cls(Phase(form[name]))
            except ValueError:
                return None
    return None
