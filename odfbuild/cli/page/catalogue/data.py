"""Data of the catalogue as its page gets it: an index, columns, and details by the hundred.  Pure.

The index is small and read at once; columns and details are compressed, and read when they are
asked for.  Every text goes through `_shown`: printable, without credentials, and of bounded length.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from odfbuild.app.inspection.catalogue import Catalogue, CatalogueEntry, Source, TestOutcome
from odfbuild.cli.page.markup import shown_lines
from odfbuild.cli.render.words import column_text, count
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import Diagnostic, OdfBuildError, ProtocolError
from odfbuild.executors.testing.model import Fixture, On, RowCheck
from odfbuild.odf.chain.schema import schema_of
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    AttachmentsEmbedded,
    DatasetKind,
    DatasetVocabulary,
    DataType,
    ExecuteTransform,
    MetadataBlock,
    SetDataSchema,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import type_text
from odfbuild.odf.schema.types import inner, is_optional, type_name
from odfbuild.planner.evolution.columns.compare import compare_schemas
from odfbuild.planner.evolution.columns.derive import data_schema
from odfbuild.planner.evolution.columns.resolve import UNTYPED
from odfbuild.planner.staleness import Lag
from odfbuild.sql.text.steps import steps_of
from odfbuild.texts.redaction import blanked, excerpt

CHUNK = 100
"""Datasets whose details are compressed together."""

LONGEST_TEXT = 4_000
LONGEST_QUERY = 20_000
LONGEST_SUMMARY = 140
LONGEST_COLUMN = 300
MOST_COLUMNS = 2_000
MOST_TESTS = 200
MOST_ATTACHMENTS = 10

STATES = (
    "damaged", "wrong definition", "failed", "skipped", "test failed", "changed", "behind",
    "not applied", "not declared", "up to date", "applied",
)  # fmt: skip
"""What can be said of a dataset in a word, what matters most first."""


def index_of(catalogue: Catalogue, *, has_plan: bool, has_run: bool = False) -> dict[str, Any]:
    """Return what is read at once: of each dataset what the list and the graph show."""
    numbers = _numbers(catalogue)
    words = _Words()
    rows = [_row(each, catalogue, numbers, words) for each in catalogue.entries]
    return {
        "project": printable(catalogue.project),
        "target": printable(catalogue.target),
        "plan": has_plan,
        "run": has_run,
        "applied": catalogue.is_applied,
        "states": STATES,
        "chunk": CHUNK,
        "words": words.texts,
        "rows": rows,
        "problems": [
            *map(_problem, (*catalogue.unread, *catalogue.wrong_tests)),
            *(_damage(each, catalogue) for each in catalogue.damage),
        ],
    }


def columns_of(catalogue: Catalogue) -> list[Any]:
    """Return of each dataset its description, its columns, and what decides on its rows.

    A source is a number of a dataset, or the name of one that is not shown, and a column.
    """
    numbers = _numbers(catalogue)
    return [
        [
            _shown(each.info.description or "") if each.info is not None else "",
            _columns(each, numbers),
            None if each.shaping is None else [_ref(ref, numbers) for ref in each.shaping],
        ]
        for each in catalogue.entries
    ]


def details_of(catalogue: Catalogue) -> Iterator[list[Any]]:
    """Yield what the pages of datasets show, for `CHUNK` datasets each time."""
    numbers = _numbers(catalogue)
    for start in range(0, len(catalogue.entries), CHUNK):
        part = catalogue.entries[start : start + CHUNK]
        yield [_details(each, catalogue, numbers) for each in part]


def packed(data: Any) -> str:
    """Return JSON that is compressed, in letters, digits and `+/=` alone."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 6)).decode("ascii")


class _Words:
    """Texts that many datasets share, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str | None) -> int:
        """Return the number of a text, -1 of none."""
        if text is None:
            return -1
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(printable(text))
        return self._numbers[text]


def _numbers(catalogue: Catalogue) -> Mapping[DatasetAlias, int]:
    return {each.alias: number for number, each in enumerate(catalogue.entries)}


def _row(
    each: CatalogueEntry, catalogue: Catalogue, numbers: Mapping[DatasetAlias, int], words: _Words
) -> list[Any]:
    traits = None if each.declared is None else each.declared.traits
    description = (each.info.description or "") if each.info is not None else ""
    return [
        printable(str(each.alias)),
        {DatasetKind.ROOT: 0, DatasetKind.DERIVATIVE: 1, None: -1}[each.kind],
        words(None if each.declared is None else str(PurePosixPath(each.declared.file).parent)),
        words(None if traits is None else traits.owner),
        [] if traits is None else [words(tag) for tag in traits.tags],
        STATES.index(state_of(each, catalogue)),
        None if each.state is None else each.state.system_time.millis,
        None if each.state is None else each.state.next_offset,
        list(dict.fromkeys(at for _, at in _inputs(each, catalogue, numbers))),
        _shown(" ".join(description.split()), LONGEST_SUMMARY),
        len(each.checks) + len(each.fixtures),
    ]


def state_of(each: CatalogueEntry, catalogue: Catalogue) -> str:
    """Return what is to be known of a dataset first, one of `STATES`."""
    if each.damage is not None or each.history.problem is not None:
        return "damaged"
    if each.wrong:
        return "wrong definition"
    if each.result in ("failed", "skipped"):
        return each.result
    if any(found is not None and found.outcome == "failed" for found in _outcomes(each, catalogue)):
        return "test failed"
    if each.state is None:
        return "not applied"
    if each.is_changed:
        return "changed"
    if each.lag is not None and _is_behind(each.lag):
        return "behind"
    if each.declared is None:
        return "not declared"
    return "applied" if each.lag is None else "up to date"


def _is_behind(lag: Lag) -> bool:
    return lag.records != 0 or lag.watermark is not None or lag.restates


def _lag_text(lag: Lag) -> str:
    if any(each.rewritten for each in lag.inputs):
        return "an input was rewritten since"
    if any(each.present is None for each in lag.inputs):
        return "an input is not there"
    if lag.restates:
        return "its query has yet to correct what was written"
    if lag.records:
        return f"{count(lag.records, 'row')} of its inputs not read yet"
    return "nothing new in its inputs" if lag.watermark is None else "a new watermark to reach"


def _inputs(
    each: CatalogueEntry, catalogue: Catalogue, numbers: Mapping[DatasetAlias, int]
) -> list[tuple[str, int | str]]:
    """Return the inputs by the names that the query gives them; what is not shown by its name."""
    found: list[tuple[str, int | str]] = []
    for source in () if each.transform is None else each.transform.inputs:
        ref = source.dataset_ref
        alias = catalogue.names.get(ref) if isinstance(ref, DatasetId) else ref
        at = str(ref) if alias is None else numbers.get(alias, str(alias))
        name = source.alias or str(ref)
        found.append((printable(name), printable(at) if isinstance(at, str) else at))
    return found


def _columns(each: CatalogueEntry, numbers: Mapping[DatasetAlias, int]) -> list[Any] | None:
    """Return the columns that are stored or will be, each with its type and its sources."""
    sources = {} if each.columns is None else {c.name: c.sources for c in each.columns}
    if each.schema is not None:
        types = {field.name: _type(field.type) for field in each.schema.fields}
    elif each.columns is not None:
        types = dict.fromkeys(sources, ("", False))
    else:
        return None
    return [
        [
            printable(excerpt(name, LONGEST_COLUMN)),
            *types[name],
            None if each.columns is None else [_ref(ref, numbers) for ref in sources.get(name, ())],
        ]
        for name in list(types)[:MOST_COLUMNS]
    ]


def _type(of: DataType) -> tuple[str, bool]:
    """Return a type as text, and whether it is never null."""
    if of == UNTYPED:
        return "", False
    try:
        text = type_text(inner(of)).removesuffix(" NOT NULL")
    except OdfBuildError:
        text = type_name(inner(of))
    return _shown(text, LONGEST_TEXT), not is_optional(of)


def _ref(ref: tuple[DatasetAlias, str], numbers: Mapping[DatasetAlias, int]) -> list[Any]:
    dataset, column = ref
    shown = printable(excerpt(column, LONGEST_COLUMN))
    return [numbers.get(dataset, printable(str(dataset))), shown]


def _details(
    each: CatalogueEntry, catalogue: Catalogue, numbers: Mapping[DatasetAlias, int]
) -> dict[str, Any]:
    state, declared = each.state, each.declared
    found = {
        "did": None if each.id is None else str(each.id),
        "head": None if state is None else str(state.head),
        "blocks": None if state is None else state.sequence + 1,
        "watermark": None if state is None or state.watermark is None else state.watermark.millis,
        "lag": None if each.lag is None else _lag_text(each.lag),
        "place": None if declared is None else f"{declared.file}:{declared.span(()).line}",
        "instance": None if declared is None else declared.instance,
        "package": None if declared is None else declared.package,
        "licence": _licence(each),
        "keywords": list((each.info.keywords or ())[:50]) if each.info is not None else [],
        "inputs": _inputs(each, catalogue, numbers),
        **_query(each),
        "sources": [_source(source) for source in each.sources],
        "tests": _tests(each, catalogue),
        "history": [_block(hash.short(), block) for hash, block in each.history.blocks],
        "older": each.history.older,
        "schemas": list(_schemas([block for _, block in each.history.blocks], each.vocab)),
        "attachments": list(_attachments(each)),
        "problems": list(_problems(each, catalogue)),
    }
    return {key: _all_shown(value) for key, value in found.items() if value not in (None, [])}


def _licence(each: CatalogueEntry) -> list[str] | None:
    found = each.license
    return None if found is None else [found.short_name, found.name, found.website_url]


def _query(each: CatalogueEntry) -> dict[str, Any]:
    transform = each.transform
    if transform is None:
        return {}
    if is_opaque(transform.transform):
        return {"engine": "of a kind that this version does not know"}
    steps = steps_of(transform.transform)
    return {
        "engine": transform.transform.engine,
        "query": [[step.alias or "", excerpt(step.text, LONGEST_QUERY)] for step in steps],
    }


def _source(source: Source) -> list[str]:
    name = source.source_name if isinstance(source, AddPushSource) else ""
    found = blanked(to_mapping(source))
    kind = found.pop("kind")
    return [f"{kind} {name}".strip(), excerpt(yaml_text(found), LONGEST_QUERY)]


def _outcomes(each: CatalogueEntry, catalogue: Catalogue) -> list[TestOutcome | None]:
    """Return what became of the checks and the fixtures of a dataset; None where nobody knows."""
    if not catalogue.outcomes:
        return []
    keys = [("data", str(each.alias), check.label) for check in each.checks]
    keys += [("unit", str(each.alias), fixture.name) for fixture in each.fixtures]
    return [catalogue.outcomes.get(key) for key in keys]


def _tests(each: CatalogueEntry, catalogue: Catalogue) -> list[list[str]]:
    """Return the tests of a dataset, each with what became of it; no row is in that."""
    tests = [*map(_check, each.checks), *map(_fixture, each.fixtures)]
    outcomes = _outcomes(each, catalogue) or [None] * len(tests)
    found = [[*test, *_words_of(one)] for test, one in zip(tests, outcomes, strict=True)]
    return found[:MOST_TESTS]


def _words_of(found: TestOutcome | None) -> list[str]:
    if found is None:
        return ["", ""]
    if found.failing is None or found.looked is None or found.outcome == "passed":
        return [found.outcome, ""]
    return [found.outcome, f"{found.failing:,} of {count(found.looked, 'row')}"]


def _check(check: RowCheck) -> list[str]:
    about = "new rows" if check.on is On.NEW_ROWS else "all rows"
    place = f"{check.span.file}:{check.span.line}"
    return ["check", check.label, check.severity.value, about, place]


def _fixture(fixture: Fixture) -> list[str]:
    span, number = fixture.dataset_span, len(fixture.batches)
    batches = f"{number:,} {'batch' if number == 1 else 'batches'}"
    return ["fixture", fixture.name, "error", batches, f"{span.file}:{span.line}"]


def _block(hash: str, block: MetadataBlock) -> list[Any]:
    """Return number, time, event, rows and watermark of a block, and its hash."""
    event = block.event
    rows: int | None = None
    watermark: int | None = None
    if isinstance(event, AddData | ExecuteTransform):
        data = event.new_data
        rows = 0 if data is None else data.offset_interval.end - data.offset_interval.start + 1
        watermark = None if event.new_watermark is None else event.new_watermark.millis
    kind = f"unknown ({event.tag})" if is_opaque(event) else type(event).__name__
    return [block.sequence_number, block.system_time.millis, kind, rows, watermark, hash]


def _schemas(
    newest_first: Sequence[MetadataBlock], vocab: DatasetVocabulary
) -> Iterator[list[Any]]:
    """Yield number and time of each block that set a schema, and what it changed, newest first."""
    found: list[list[Any]] = []
    before = None
    for block in reversed(newest_first):
        if not isinstance(block.event, SetDataSchema):
            continue
        try:
            schema = data_schema(schema_of(block.event), vocab)
        except ProtocolError as error:
            found.append([block.sequence_number, block.system_time.millis, [error.what]])
            continue
        if before is None:
            changes = [f"{count(len(schema.fields), 'column')} in force from here on"]
        else:
            changes = [column_text(each, old_rows=True) for each in compare_schemas(before, schema)]
        found.append([block.sequence_number, block.system_time.millis, changes[:100]])
        before = schema
    yield from reversed(found)


def _attachments(each: CatalogueEntry) -> Iterator[list[str]]:
    event = each.attachments
    if event is not None and isinstance(event.attachments, AttachmentsEmbedded):
        for item in event.attachments.items[:MOST_ATTACHMENTS]:
            yield [item.path, excerpt(item.content, LONGEST_TEXT)]


def _problems(each: CatalogueEntry, catalogue: Catalogue) -> Iterator[list[str]]:
    if each.damage is not None:
        yield _damage(each.damage, catalogue)
    if each.history.problem is not None:
        yield _damage(each.history.problem, catalogue)
    yield from map(_problem, each.wrong)


def _damage(error: OdfBuildError, catalogue: Catalogue) -> list[str]:
    """Return what is said of damage, without the folders of this machine."""
    texts = [error.what, error.why, error.fix]
    for folder in catalogue.folders:
        texts = [text.replace(f"{folder}/", "") for text in texts]
    return ["damaged", *map(_shown, texts)]


def _problem(found: Diagnostic) -> list[str]:
    place = "" if found.span is None else f"{found.span.file}:{found.span.line}: "
    return [_shown(each) for each in (found.code, f"{place}{found.what}", found.why, found.fix)]


def _all_shown(value: Any) -> Any:
    """Return what JSON has with every text as people may see it."""
    match value:
        case str():
            return _shown(value, LONGEST_QUERY)
        case list() | tuple():
            return [_all_shown(each) for each in value]
    return value


def _shown(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text that is printable, has no credential and at most so many characters.

    What begins far behind them is not looked at.
    """
    return shown_lines(excerpt(text[: 10 * LONGEST_QUERY], most))
