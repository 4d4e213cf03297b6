"""The published cases: the copies are true, and every case is run by a test, none passed over."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.cases import load
from tests.support.projects import REPOSITORY

HERE = Path(__file__).parent / "vectors"
SHARED = REPOSITORY.parent / "shared" / "vectors"
RUN_BY = {
    "compaction": ("tests.app.maintenance.test_compaction",),
    "ingest-fetch": (
        "tests.executors.ingest.fetch.test_source",
        "tests.executors.ingest.fetch.test_container",
    ),
    "ingest-template": ("tests.executors.ingest.fetch.test_substitute",),
    "merge-append": ("tests.executors.engine.spark.ingest.test_merge_vectors",),
    "merge-changelog-stream": (
        "tests.executors.engine.spark.ingest.test_merge_vectors",
        "tests.executors.ingest.test_merge_streams",
    ),
    "merge-ledger": ("tests.executors.engine.spark.ingest.test_merge_vectors",),
    "merge-snapshot": ("tests.executors.engine.spark.ingest.test_merge_vectors",),
    "merge-snapshot-project": ("tests.executors.engine.spark.ingest.test_merge_vectors",),
    "merge-upsert-stream": (
        "tests.executors.engine.spark.ingest.test_merge_vectors",
        "tests.executors.ingest.test_merge_streams",
    ),
    "merge-writer": ("tests.executors.ingest.test_writer_vectors",),
    "pull-plan": ("tests.planner.plan.test_subset",),
    "readers-csv": ("tests.executors.ingest.read.test_vectors",),
    "readers-ddl-types": ("tests.odf.schema.test_ddl",),
    "readers-geojson": ("tests.executors.ingest.read.test_vectors",),
    "readers-json": ("tests.executors.ingest.read.test_vectors",),
    "readers-ndgeojson": ("tests.executors.ingest.read.test_vectors",),
    "readers-ndjson": ("tests.executors.ingest.read.test_vectors",),
    "readers-parquet": ("tests.executors.ingest.read.test_vectors",),
    "readers-shapefile": ("tests.executors.ingest.read.test_shapefile",),
    "transform-chain": ("tests.executors.transform.test_chain_vectors",),
    "transform-datafusion": ("tests.executors.engine.spark.transform.test_datafusion_vectors",),
    "transform-plan": ("tests.planner.test_intervals",),
    "transform-spark-map": ("tests.executors.engine.spark.transform.test_transform",),
    "watermark-manual": ("tests.executors.ingest.test_manual_watermark",),
}
NOT_RUN = {"skip", "skipif", "xfail"}
CALLED_OTHERWISE = {
    "input-compacted": ("tests.cli.commands.apply.test_maintenance", "out: it cannot continue")
}
QUIRKS = {  # of the reference: what is asserted in their place
    "snapshot-key-only-table-quirk": "table of key columns only",
    "ddl-18": "`DATE`, `DECIMAL` columns in a DDL schema",
    "ddl-19": "`DATE`, `DECIMAL` columns in a DDL schema",
    "ddl-20": "`DATE`, `DECIMAL` columns in a DDL schema",
}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published cases are not beside the repository")
def test_every_copy_is_the_published_file_to_the_byte() -> None:
    published = {path.stem: path.read_bytes() for path in SHARED.glob("*.json")}
    copies = {path.stem: path.read_bytes() for path in HERE.glob("*.json")}
    assert copies == published


def test_every_file_of_cases_is_run_by_tests() -> None:
    with_cases = {p.stem for p in HERE.glob("*.json") if "cases" in json.loads(p.read_text())}
    assert with_cases == RUN_BY.keys()


@pytest.mark.parametrize("name", RUN_BY)
def test_every_case_is_run(name: str) -> None:
    modules = [importlib.import_module(each) for each in RUN_BY[name]]
    run = {each for module in modules for each in ids_of(module)}
    cases = [case["id"] for case in load(name)["cases"]]
    assert len(cases) == len(set(cases)) > 0
    assert {each for each in cases if each not in run} <= CALLED_OTHERWISE.keys()


def test_cases_that_are_called_otherwise_are_run_too() -> None:
    for module, says in CALLED_OTHERWISE.values():
        assert says in source_of(importlib.import_module(module))


def test_every_quirk_of_the_reference_is_documented_as_a_difference() -> None:
    found = {c["id"] for name in RUN_BY for c in load(name)["cases"] if c.get("quirk")}
    assert found == QUIRKS.keys()
    documented = (REPOSITORY / "docs" / "compatibility.md").read_text("utf-8")
    assert all(topic in documented for topic in QUIRKS.values())


def ids_of(module: ModuleType) -> Iterator[str]:
    """Yield the ids of the cases that a module runs: all of a file, or those that it names."""
    yield from re.findall(r'"([\w-]+)"', source_of(module))
    if re.search(r"^\(CASE,\) = load", source_of(module), re.M):
        yield module.CASE["id"]
    for each in vars(module).values():
        marks = getattr(each, "pytestmark", ())
        for mark in () if any(mark.name in NOT_RUN for mark in marks) else marks:
            if mark.name == "parametrize":
                yield from (each for each in mark.args[1] if isinstance(each, str))
                yield from (case["id"] for case in map(case_of, mark.args[1]) if "id" in case)


def case_of(value: Any) -> dict[str, Any]:
    """Return the case among the values of one parameter set."""
    values = getattr(value, "values", value)
    if isinstance(value, dict):
        return value
    found = [v for v in values if isinstance(v, dict)] if isinstance(values, tuple) else []
    return found[0] if found else {}


def source_of(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text("utf-8")
