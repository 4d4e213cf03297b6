"""What a lock file says otherwise than the project, as text that reads like a diff.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from odfbuild.cli.printable import printable
from odfbuild.project.lock_state import LockDifference
from odfbuild.project.lockfile import LockedSchema

__all__ = ["datasets_text", "outdated_text", "schemas_text"]

_WORDS = {
    "missing": ("+", "is not in it"),
    "extra": ("-", "is no longer declared"),
    "definition": ("~", "its definition changed"),
    "inputs": ("~", "the columns of its inputs changed"),
    "columns": ("~", "its columns cannot be read"),
    "missing package": ("+", "the package is not in it"),
    "extra package": ("-", "the package is no longer used"),
    "package": ("~", "the package changed"),
}


def outdated_text(found: Sequence[LockDifference]) -> str:
    """Return one line for each difference, and the old and new texts below it."""
    return "".join(f"{printable(line)}\n" for each in found for line in _difference(each))


def schemas_text(before: Mapping[str, LockedSchema], after: Mapping[str, LockedSchema]) -> str:
    """Return the datasets whose entries differ, and the columns that do."""
    names = sorted({*before, *after})
    return "".join(
        f"{printable(line)}\n"
        for name in names
        if before.get(name) != after.get(name)
        for line in _entry(name, before.get(name), after.get(name))
    )


def datasets_text(number: int) -> str:
    """Return how many datasets there are."""
    return f"{number:,} dataset{'' if number == 1 else 's'}"


def _difference(each: LockDifference) -> Iterator[str]:
    sign, words = _WORDS[each.kind]
    yield f"  {sign} {each.name}  {words}"
    if each.was is not None:
        yield f"      - {each.was}"
    if each.now is not None:
        yield f"      + {each.now}"


def _entry(name: str, before: LockedSchema | None, after: LockedSchema | None) -> Iterator[str]:
    sign = "+" if before is None else "-" if after is None else "~"
    old, new = _lines(before), _lines(after)
    if old == new:
        yield f"  {sign} {name}  same columns"
        return
    yield f"  {sign} {name}"
    if after is None:
        return
    for kind, start, end, first, last in SequenceMatcher(None, old, new, False).get_opcodes():
        if kind != "equal":
            yield from (f"      - {line}" for line in old[start:end])
            yield from (f"      + {line}" for line in new[first:last])


def _lines(entry: LockedSchema | None) -> list[str]:
    if entry is None:
        return []
    return list(entry.columns) if entry.unknown is None else [f"unknown: {entry.unknown}"]
