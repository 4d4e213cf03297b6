"""Lineage as files of other programs: flat CSV, and the documents of datasets (EO3)."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from odfbuild.errors import SourceSpan, StateError
from odfbuild.lineage.ids import node_id
from odfbuild.lineage.model import LineageRelation, LineageTree
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.store import KnownDataset
from odfbuild.odf.identity import DatasetId
from odfbuild.regular_files import read_regular

__all__ = ["COLUMNS", "LineageFileError", "csv_rows", "eo3_document", "read_file"]

COLUMNS = ("derived_id", "source_id", "classifier", "derived_home", "source_home")
_NEEDED = COLUMNS[:3]


class LineageFileError(StateError):
    """A file that is given as lineage cannot be read as such."""

    code = "lineage-file"


def csv_rows(
    relations: Iterable[LineageRelation], homes: Mapping[UUID, str]
) -> Iterator[tuple[str | None, ...]]:
    """Yield a row for each relation, then one for each dataset that only has a home."""
    told: set[UUID] = set()
    for each in relations:
        ends = (each.derived_id, each.source_id)
        told.update(ends)
        yield (str(ends[0]), str(ends[1]), each.classifier, homes.get(ends[0]), homes.get(ends[1]))
    for dataset, home in homes.items():
        if dataset not in told:
            yield str(dataset), None, None, home, None


def eo3_document(tree: LineageTree) -> str:
    """Return the id and the lineage of a dataset, as its document has them."""
    import yaml

    lineage = {key: [str(each) for each in ids] for key, ids in tree.to_eo3_doc().items()}
    found = {"id": str(tree.dataset_id), "lineage": lineage}
    return str(yaml.safe_dump(found, sort_keys=False, allow_unicode=False))


def read_file(path: Path, home: str | None) -> tuple[LineageRelations, tuple[KnownDataset, ...]]:
    """Return what a file says, and the ODF datasets that it names; by its suffix CSV or documents.

    `home` is that of the sources in documents.  Raises LineageFileError with the place, and
    InconsistentLineageException if the file contradicts itself.
    """
    try:
        text = read_regular(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(path, None, f"it cannot be read: {error}") from error
    held = LineageRelations()
    if path.suffix.lower() == ".csv":
        return held, tuple(_read_csv(path, text, held, home))
    for number, doc in enumerate(_documents(path, text), 1):
        try:
            held.merge_tree(LineageTree.from_eo3_doc(doc, home=home))
        except KeyError as error:
            raise _bad(path, None, f"document {number} has no id") from error
        except ValueError as error:
            raise _bad(path, None, f"document {number}: {error}") from error
    return held, ()


def _documents(path: Path, text: str) -> list[Mapping[str, Any]]:
    import yaml

    try:
        found = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise _bad(path, line, error.problem or "it is no YAML") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _bad(path, None, "it is no YAML") from error
    for number, each in enumerate(found, 1):
        if not isinstance(each, Mapping):
            raise _bad(path, None, f"document {number} is no mapping with an id and a lineage")
    return found


def _read_csv(
    path: Path, text: str, into: LineageRelations, home: str | None
) -> Iterator[KnownDataset]:
    rows = csv.reader(io.StringIO(text), strict=True)
    relations: list[LineageRelation] = []
    homes: list[tuple[UUID, str]] = []
    dids: dict[str, None] = {}
    try:
        places = _places(path, next(rows, []))
        for row in rows:
            if row:
                cells = _cells(path, rows.line_num, row, places)
                relation = _relation(path, rows.line_num, cells, homes, home)
                dids |= dict.fromkeys(
                    each for each in (cells["derived_id"], cells["source_id"]) if each[:4] == "did:"
                )
                relations += [] if relation is None else [relation]
    except csv.Error as error:
        raise _bad(path, rows.line_num, str(error)) from error
    for id_, kept in homes:
        into.merge_new_home(id_, kept)
    into.merge(LineageRelations(relations=relations))
    return (KnownDataset(DatasetId.parse(each)) for each in dids)


def _places(path: Path, heading: list[str]) -> dict[str, int]:
    missing = [each for each in _NEEDED if each not in heading]
    if missing:
        raise _bad(path, 1, f"it has no column {' and no column '.join(missing)}")
    return {name: heading.index(name) for name in COLUMNS if name in heading}


def _cells(path: Path, line: int, row: list[str], places: Mapping[str, int]) -> dict[str, str]:
    if len(row) <= max(places.values()):
        raise _bad(path, line, f"the line ends after {len(row)} cells")
    return {name: row[places[name]] if name in places else "" for name in COLUMNS}


def _relation(
    path: Path, line: int, cells: Mapping[str, str], homes: list[tuple[UUID, str]], home: str | None
) -> LineageRelation | None:
    """Return the relation of a line, None if it only tells a home; homes are added."""
    try:
        derived = node_id(cells["derived_id"])
        if cells["derived_home"]:
            homes.append((derived, cells["derived_home"]))
        if not cells["source_id"]:
            return None
        source = node_id(cells["source_id"])
    except ValueError as error:
        raise _bad(path, line, str(error)) from error
    source_home = cells["source_home"] or home
    if source_home:
        homes.append((source, source_home))
    return LineageRelation(cells["classifier"], source_id=source, derived_id=derived)


def _bad(path: Path, line: int | None, what: str) -> LineageFileError:
    return LineageFileError(
        what=f"{path} is no lineage: {what}",
        why="a .csv has the columns " + ", ".join(_NEEDED) + "; other files hold documents of"
        " datasets in YAML or JSON, with an id and a flat lineage",
        fix="correct the file; nothing of it was taken in",
        span=None if line is None else SourceSpan(file=str(path), line=line),
    )
