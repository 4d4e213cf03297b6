"""The rows of a plan: what a later plan needs of the datasets that nothing changes for.

The record of a plan has the key that their checksum is made with, and what changed in few of them
since.  A cache: rows that are lost or damaged cost a plan of all datasets.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.state.files.checksum import checked_texts
from odfbuild.state.memory.plans import ChangedRow, PlanRecord, put_texts
from odfbuild.values import dataclass

_FILE: Final = "plan-rows"
_FIELDS: Final = ("aliases", "files", "ids", "reads", "holds", "sources", "loud")
Place: TypeAlias = tuple[str, int, int, int, str | None]
"""The kind of a dataset, and where its name is: line, column, length, the text of the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRows:
    """Datasets in the order of a plan; they are named by their numbers in it.

    `ids` is None of those that are not built.  `reads` are the inputs as declared, `holds` those of
    the chain.  `sources` are the roots with a local source, `loud` those that the plan had
    something to say of.  `forms` are the definitions and `places` a Place each, as JSON.
    """

    aliases: Sequence[str]
    files: Sequence[str]
    ids: Sequence[str | None]
    reads: Sequence[Sequence[int]]
    holds: Sequence[Sequence[int]]
    sources: Sequence[int]
    loud: Sequence[int]
    forms: Sequence[str]
    places: Sequence[str]

    def place(self, number: int) -> Place:
        """Return the place of a dataset."""
        kind, line, column, length, excerpt = parse_json(self.places[number])
        return kind, line, column, length, excerpt

    def with_changed(self, changed: Iterable[ChangedRow], loud: Sequence[int]) -> "PlanRows":
        """Return the rows with others of some datasets."""
        ids, holds = list(self.ids), list(self.holds)
        forms, places = list(self.forms), list(self.places)
        for at, id, held, form, place in changed:
            ids[at], holds[at], forms[at], places[at] = id, held, form, place
        return replace(self, ids=ids, holds=holds, loud=loud, forms=forms, places=places)

    def around(self, changed: Collection[int]) -> frozenset[int]:
        """Return the datasets that changes reach, with all that those are made of.

        What shares a file with one of them is among them, too.
        """
        readers: dict[int, list[int]] = {}
        for number, (reads, holds) in enumerate(zip(self.reads, self.holds, strict=True)):
            for each in (*reads, *holds):
                readers.setdefault(each, []).append(number)
        reached = _closure(changed, lambda number: readers.get(number, ()))
        by_file: dict[str, list[int]] = {}
        for number, file in enumerate(self.files):
            by_file.setdefault(file, []).append(number)
        return _closure(
            reached,
            lambda number: (
                *self.reads[number],
                *self.holds[number],
                *by_file[self.files[number]],
            ),
        )


def keep_rows(cache: Path, key: str, rows: PlanRows | None) -> None:
    """Keep the rows of a plan under a key; with None, none are kept.  Raises OSError."""
    if rows is None:
        (cache / _FILE).unlink(missing_ok=True)
        return
    head = json.dumps({name: getattr(rows, name) for name in _FIELDS})
    put_texts(cache / _FILE, (head, "\n".join((*rows.places, *rows.forms))), key)


def recall_rows(cache: Path, plan_record: PlanRecord) -> PlanRows | None:
    """Return the rows of the plan of a record, None if they cannot be read."""
    try:
        head, lines = checked_texts(read_regular(cache / _FILE), plan_record.rows)
        rest = lines.split("\n")
        raw, half = parse_json(head), len(rest) // 2
        columns = {name: raw[name] for name in _FIELDS}
        kept = PlanRows(**columns, places=rest[:half], forms=rest[half:])
        found = kept.with_changed(
            plan_record.changed, plan_record.loud if plan_record.changed else kept.loud
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if _is_sound(found) else None


def _is_sound(rows: PlanRows) -> bool:
    """Tell whether all columns are of one length, and numbers are those of datasets."""
    size = len(rows.forms)
    columns = (rows.aliases, rows.files, rows.ids, rows.reads, rows.holds, rows.places)
    numbers = {*rows.sources, *rows.loud, *chain(*rows.reads, *rows.holds)}
    return all(len(each) == size for each in columns) and numbers <= set(range(size))


def _closure(start: Collection[int], after: Callable[[int], Iterable[int]]) -> frozenset[int]:
    found, left = set(start), list(start)
    while left:
        new = set(after(left.pop())) - found
        found |= new
        left += new
    return frozenset(found)
