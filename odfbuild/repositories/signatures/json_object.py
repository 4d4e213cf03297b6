"""Untrusted JSON objects, read strictly: each member once, none unknown, exact types.

Whatever is wrong is a ValueError, whose text says what.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from odfbuild.errors import ProtocolError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId, Multicodec, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.texts.redaction import excerpt

T = TypeVar("T")
_SHOWN = 40  # characters of what a stranger wrote
_MOST_NUMBER = (1 << 63) - 1


class Members:
    """The members of one JSON object, taken out one by one; `end` refuses what is left."""

    def __init__(self, values: Any) -> None:
        if not isinstance(values, Mapping):
            _refuse("it is not a JSON object")
        self._values = dict(values)

    @classmethod
    def parse(cls, data: bytes, most: int) -> "Members":
        """Read the JSON text of an object, of at most so many bytes."""
        if len(data) > most:
            _refuse(f"it has {len(data):,} bytes, and at most {most:,} are read")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            _refuse("it is not UTF-8")
        try:
            return cls(parse_json(text, object_pairs_hook=_once, parse_constant=_refuse))
        except ValueError as error:
            raise ValueError(f"it is not valid JSON: {error}") from None

    def take(self, name: str) -> Any:
        """Return a member, which has to be there."""
        if name not in self._values:
            _refuse(f"it lacks {name}")
        return self._values.pop(name)

    def has(self, name: str) -> bool:
        """Say whether there is a member that was not taken yet."""
        return name in self._values

    def end(self) -> None:
        """Refuse members that nobody took."""
        if self._values:
            _refuse(f"{excerpt(next(iter(self._values)), _SHOWN)!r} is no member of it")

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.take(name)
        return value if isinstance(value, str) else _refuse(f"{name} is no text")

    def number(self, name: str) -> int:
        """Return a whole number from 0, of at most 63 bits."""
        value = self.take(name)
        if type(value) is not int or not 0 <= value <= _MOST_NUMBER:
            _refuse(f"{name} is no whole number from 0")
        return value

    def list(self, name: str, most: int) -> list[Any]:
        """Return a list of at most so many values."""
        value = self.take(name)
        if not isinstance(value, list):
            _refuse(f"{name} is no list")
        if len(value) > most:
            _refuse(f"{name} has {len(value):,} values, and at most {most:,} are read")
        return value

    def bytes(self, name: str) -> bytes:
        """Return what a text in base64 stands for: the standard alphabet, padded, no other form."""
        text = self.text(name)
        try:
            data = b64decode(text, validate=True)
        except ValueError:
            _refuse(f"{name} is not base64")
        if b64encode(data).decode() != text:
            _refuse(f"{name} is not in the one base64 form of its bytes")
        return data

    def dataset(self, name: str) -> DatasetId:
        """Return the id of a dataset, as did:odf:fed01..."""
        return _same(name, self.text(name), DatasetId.parse)

    def block(self, name: str) -> Multihash:
        """Return the hash of a block: f1620 and 64 digits."""
        hash = _same(name, self.text(name), Multihash.parse)
        if hash.code != Multicodec.SHA3_256 or len(hash.digest) != 32:
            _refuse(f"{name} is not the hash of a block")
        return hash

    def block_or_none(self, name: str) -> Multihash | None:
        """Return the hash of a block, or None for null."""
        if name in self._values and self._values[name] is None:
            return self.take(name)  # type: ignore[no-any-return]
        return self.block(name)

    def time(self, name: str) -> Timestamp:
        """Return an instant, in UTC and with no more digits than it needs."""
        return _same(name, self.text(name), Timestamp.parse)

    def time_or_none(self, name: str) -> Timestamp | None:
        """Return an instant, or None for null."""
        if name in self._values and self._values[name] is None:
            return self.take(name)  # type: ignore[no-any-return]
        return self.time(name)


def _same(name: str, text: str, parse: Callable[[str], T]) -> T:
    """Read a text that has one form only, so that two texts never mean the same."""
    try:
        value = parse(text)
    except ProtocolError as error:
        raise ValueError(f"{name}: {error.what}") from None
    return value if str(value) == text else _refuse(f"{name} is not written in its one form")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse("a member is there twice")


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)
