"""Rewriting of old manifests to today's specification: kinds, values, ids, fields.

The layout of the classes says where kinds, enums and hashes stand.  What is not known is passed
over: the strict reader is there to refuse it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, cast

from odfbuild.errors import ProtocolError
from odfbuild.odf.events import TransformInput
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.record import Record
from odfbuild.odf.wire.layout import TABLES, UNIONS
from odfbuild.odf.wire.slots import Slot
from odfbuild.project.upgrade.words import LEFT_OUT, RENAMED_KINDS, renamed
from odfbuild.project.yaml.layout import DocumentEdits, Steps
from odfbuild.project.yaml.places import Spot

_METHOD = "did:odf:"
_CID_OF_KEY = b"\x01\xed\x01"
_IDENTITY = b"\x00\x20"


class BadLegacyIdError(ProtocolError):
    """An id of an older specification holds a hash of the key instead of the key."""

    code = "legacy-id"


def modern_id(text: str) -> DatasetId:
    """Return the id that an old or a new text names.

    Raises BadLegacyIdError when only the hash of its key is known, and another ProtocolError when
    the text is no id of any time.
    """
    try:
        return DatasetId.parse(text)
    except ProtocolError:
        data = _decode(text.removeprefix(_METHOD))
        if data is None or not data.startswith(_CID_OF_KEY):
            raise
    behind = data[len(_CID_OF_KEY) :]
    if behind.startswith(_IDENTITY) and len(behind) == 34:
        return DatasetId(behind[2:])
    raise BadLegacyIdError(
        what=f"{text!r} cannot be written as a present id; it is left as it is",
        why="it holds a hash of the dataset's key, and ids are the key itself now",
        fix="write the name of the dataset, or its id, from odfbuild status or its owner",
    )


def _decode(text: str) -> bytes | None:
    from multiformats import multibase

    try:
        return bytes(multibase.decode(text))
    except (KeyError, ValueError):
        return None


_DID = "did:odf:"


class Walk:
    """Goes through values and their places together, and edits the page.

    A value that several aliases repeat is edited once.
    """

    def __init__(self, page: DocumentEdits) -> None:
        self.page = page
        self.seen: set[tuple[int, int]] = set()

    def table(self, cls: type[Record], value: object, spot: Spot, path: Steps) -> None:
        """Go through a mapping that stands for a class."""
        if TABLES[cls].transparent:
            self._slot(TABLES[cls].slots[0], value, spot, path)
            return
        if not isinstance(value, dict) or spot.keys is None or self._been(spot):
            return
        names = self._rename_fields(cls, value, spot, path)
        for key, item in value.items():
            if key in LEFT_OUT.get(cls, ()):
                self._leave_out(cls, spot, key, path)
                continue
            slot = _slot(cls, names.get(str(key), str(key)), item)
            if slot is not None:
                self._slot(slot, item, spot.keys[key][2], (*path, key))

    def _been(self, spot: Spot) -> bool:
        place = (spot.start, spot.end)
        been = place in self.seen
        self.seen.add(place)
        return been

    def _rename_fields(
        self, cls: type[Record], value: Mapping[str, object], spot: Spot, path: Steps
    ) -> dict[str, str]:
        names = renamed(cls, value)
        for old, new in names.items():
            entry = self.page.entry(spot, old)
            self.page.rename(entry, new)
            self.page.change((*path, old), entry.start, entry.key_end, f"`{old}` is now `{new}`")
        return names

    def _leave_out(self, cls: type[Record], spot: Spot, key: str, path: Steps) -> None:
        gone = LEFT_OUT[cls][key]
        entry = self.page.entry(spot, key)
        self.page.leave_out(spot, key, f"not in ODF any more ({gone.fix}):")
        self.page.lose(
            (*path, key),
            entry.start,
            entry.key_end,
            f"`{key}` can no longer be expressed; it becomes a comment",
            gone.why,
            gone.fix,
            code="left-out",
        )

    def _slot(self, slot: Slot, value: object, spot: Spot, path: Steps) -> None:
        match slot.kind:
            case "table":
                self.table(cast("type[Record]", slot.of), value, spot, path)
            case "union":
                self.union(cast("str", slot.of), value, spot, path)
            case "tables" | "unions":
                self._items(slot, value, spot, path)
            case "enum":
                self._enum(cast("type[Enum]", slot.of), value, spot, path)
            case "did" | "ref" | "multihash":
                self._id(slot.kind, value, spot, path)

    def _items(self, slot: Slot, value: object, spot: Spot, path: Steps) -> None:
        if not isinstance(value, list) or spot.items is None or self._been(spot):
            return
        for at, (item, below) in enumerate(zip(value, spot.items, strict=True)):
            if slot.of is TransformInput and isinstance(item, str):
                self._input(item, below, spot, (*path, at))
            elif slot.kind == "tables":
                self.table(cast("type[Record]", slot.of), item, below, (*path, at))
            else:
                self.union(cast("str", slot.of), item, below, (*path, at))

    def _input(self, ref: str, spot: Spot, inside: Spot, path: Steps) -> None:
        """Make a mapping of an input that is a name (ODF 0.18, "DatasetSource::Derivative")."""
        page = self.page
        flow = page.is_flow(inside)
        before = page.text[: spot.start].rstrip(" \t\r\n")[-1:]
        if spot.start < inside.start or before not in (("[", ",") if flow else ("-",)):
            page.refuse(inside.start)
        if page.text[spot.start] in ("|", ">"):
            page.refuse(spot.start)
        page.change(path, spot.start, spot.end, "an input is a mapping with a `datasetRef`")
        key = page.in_style_of("datasetRef", spot.start if flow else -1)
        page.insert(spot.start, f"{'{' if flow else ''}{key}: ")
        self._id("ref", ref, spot, path)
        if flow:
            page.insert(spot.end, "}")

    def union(self, name: str, value: object, spot: Spot, path: Steps) -> None:
        """Go through a value that stands for one of the members of a union."""
        if isinstance(value, str) and name == "DataType":
            self._kind(name, value, spot, path)
            return
        if not isinstance(value, dict) or spot.keys is None or "kind" not in value:
            return
        cls = self._kind(name, value["kind"], spot.keys["kind"][2], (*path, "kind"))
        if cls is not None:
            self.table(cls, value, spot, path)

    def _kind(self, name: str, kind: object, spot: Spot, path: Steps) -> type[Record] | None:
        """Write a kind as it is spelled today; return its class."""
        union = UNIONS[name]
        if not isinstance(kind, str):
            return None
        folded = kind.lower()
        wanted = RENAMED_KINDS.get(name, {}).get(folded)
        needed = wanted is not None
        wanted = wanted or next((each for each in union.kinds if each.lower() == folded), None)
        if wanted is None:
            return None
        self._respell(kind, wanted, spot, path, needed=needed)
        return union.members[union.kinds.index(wanted)]

    def _enum(self, cls: type[Enum], value: object, spot: Spot, path: Steps) -> None:
        if isinstance(value, str):
            words = [str(member.value) for member in cls]
            wanted = next((word for word in words if word.lower() == value.lower()), None)
            if wanted is not None:
                self._respell(value, wanted, spot, path)

    def _respell(
        self, word: str, wanted: str, spot: Spot, path: Steps, *, needed: bool = False
    ) -> None:
        if word == wanted or self._been(spot):
            return
        self.page.rewrite(spot, wanted)
        known = (wanted, wanted[:1].lower() + wanted[1:], wanted.lower())
        self.page.change(
            path,
            spot.start,
            spot.end,
            f"`{word}` is written `{wanted}`",
            needed=needed or word not in known,
        )

    def _id(self, kind: str, value: object, spot: Spot, path: Steps) -> None:
        """Write ids and hashes in base16 (ODF 0.34.1, "Hash Representation")."""
        if not isinstance(value, str) or (kind != "multihash" and not value.startswith(_DID)):
            return
        try:
            known: DatasetId | Multihash = (
                Multihash.parse(value) if kind == "multihash" else modern_id(value)
            )
        except BadLegacyIdError as error:
            self.page.lose(
                path, spot.start, spot.end, error.what, error.why, error.fix, code=error.code
            )
        except ProtocolError:
            return  # what it is nobody can tell; the reader says so
        else:
            if str(known) != value and not self._been(spot):
                self.page.rewrite(spot, str(known))
                self.page.change(path, spot.start, spot.end, "ids are base16", needed=False)


def _slot(cls: type[Record], key: str, value: Any) -> Slot | None:
    """Return the slot of a key; of two that share it, the newer one for a mapping."""
    found = [slot for slot in TABLES[cls].slots if key in (slot.json, slot.own)]
    if not found:
        return None
    return found[-1] if isinstance(value, dict) else found[0]
