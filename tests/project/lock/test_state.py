"""Whether entries of a lock file still hold: by definition, by the columns of what is read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from odfbuild.odf.events import (
    DatasetKind,
    FetchStepUrl,
    MetadataEvent,
    ReadStepCsv,
    SetInfo,
    SetTransform,
    SetVocab,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.planner.declared import Declared
from odfbuild.project.lock import Lock, LockedSchema
from odfbuild.project.lock.state import (
    Definitions,
    LockDifference,
    LockedSchemas,
    definition_hash,
    differences,
)
from tests.planner.builders import dataset_id, declare, derivative, polling, root, sql

COLUMNS = ("event_time TIMESTAMP NOT NULL", "a BIGINT")


def name(text: str) -> DatasetAlias:
    return DatasetAlias.parse(text)


def lock_of(declared: Sequence[Declared], columns: tuple[str, ...] = COLUMNS) -> Lock:
    """Lock datasets as if each had these columns."""
    definitions = Definitions(declared)
    return Lock(
        schemas={
            str(each.alias): LockedSchema(
                definition=definitions.definition(each.alias),
                inputs=definitions.inputs_hash(each.alias, lambda _: columns),
                engine="1+odfbuild.1",
                columns=columns,
            )
            for each in declared
        }
    )


PROJECT = (root("a"), derivative("b", "a"), derivative("c", "b"))


def test_a_lock_made_of_a_project_holds_for_it() -> None:
    lock = lock_of(PROJECT)
    assert differences(lock, Definitions(PROJECT)) == ()
    assert dict(LockedSchemas(lock, Definitions(PROJECT))) == {
        each.alias: parse_ddl(COLUMNS) for each in PROJECT
    }


def test_another_definition_ends_its_entry_and_those_of_its_readers() -> None:
    lock = lock_of(PROJECT)
    now = (PROJECT[0], derivative("b", "a", query="select event_time from a"), PROJECT[2])
    (found,) = differences(lock, Definitions(now))
    assert (found.kind, found.name) == ("definition", "b")
    assert found.was != found.now
    assert set(LockedSchemas(lock, Definitions(now))) == {name("a")}


def test_other_columns_of_an_input_end_the_entries_of_readers() -> None:
    lock = lock_of(PROJECT)
    changed = replace(lock.schemas["a"], columns=(*COLUMNS, "b STRING"))
    edited = Lock(schemas={**lock.schemas, "a": changed})
    (found,) = differences(edited, Definitions(PROJECT))
    assert (found.kind, found.name) == ("inputs", "b")
    assert set(LockedSchemas(edited, Definitions(PROJECT))) == {name("a")}


def test_missing_and_extra_datasets_show() -> None:
    lock = lock_of((*PROJECT[:2], root("z")))
    assert differences(lock, Definitions(PROJECT)) == (
        LockDifference("missing", "c"),
        LockDifference("extra", "z"),
    )
    assert differences(None, Definitions(PROJECT[:1])) == (LockDifference("missing", "a"),)


def test_columns_that_cannot_be_read_show() -> None:
    lock = lock_of(PROJECT[:1], ("a WHAT",))
    (found,) = differences(lock, Definitions(PROJECT[:1]))
    assert found.kind == "columns"


def test_a_long_row_of_datasets_is_looked_at_without_recursion() -> None:
    row = [root("d.0"), *(derivative(f"d.{n}", f"d.{n - 1}") for n in range(1, 3000))]
    lock = lock_of(row)
    assert name("d.2999") in LockedSchemas(lock, Definitions(row))


def test_an_unknown_schema_is_known_to_nobody() -> None:
    lock = lock_of(PROJECT[:1])
    entry = replace(lock.schemas["a"], columns=(), unknown="the source declares no columns")
    found = LockedSchemas(Lock(schemas={"a": entry}), Definitions(PROJECT))
    assert (len(found), name("a") in found, found.get(name("a"))) == (0, False, None)
    with pytest.raises(KeyError):
        found[name("a")]


def test_an_input_that_is_not_declared_counts_by_its_name_alone() -> None:
    project = (derivative("b", "elsewhere"),)
    definitions = Definitions(project)
    known = definitions.inputs_hash(name("b"), lambda _: COLUMNS)
    assert known == definitions.inputs_hash(name("b"), lambda _: None)


def test_an_input_may_be_referred_to_by_its_id() -> None:
    event = SetTransform(inputs=(TransformInput(dataset_id("a"), "x"),), transform=sql("select 1"))
    by_id = declare("b", DatasetKind.DERIVATIVE, (event,))
    definitions = Definitions((PROJECT[0], by_id), {dataset_id("a"): name("a")})
    assert definitions.inputs(name("b")) == (("x", name("a")),)


def source(**changes: Any) -> Declared:
    return root("a", replace(polling(), **changes))


READ = ReadStepCsv(ddl_schema=("a BIGINT",), header=True)


@pytest.mark.parametrize(
    "other",
    [
        source(fetch=FetchStepUrl(url="https://example.org")),
        source(read=replace(READ, separator=";")),
        root("a", polling(), SetInfo(description="words")),
        root("other.name"),
    ],
    ids=["where from", "how it is cut", "description", "name"],
)
def test_what_columns_do_not_depend_on_is_no_part_of_the_definition(other: Declared) -> None:
    assert definition_hash(other) == definition_hash(root("a"))


def vocab() -> MetadataEvent:
    return SetVocab(event_time_column="t")


@pytest.mark.parametrize(
    "other",
    [
        source(read=replace(READ, ddl_schema=("a INT",))),
        source(read=ReadStepCsv(header=True)),
        source(read=ReadStepCsv(header=False)),
        root("a", polling(), vocab()),
        derivative("a", "b"),
        derivative("a", "b", query="select 1"),
    ],
)
def test_what_columns_depend_on_is_part_of_the_definition(other: Declared) -> None:
    others = [
        source(read=ReadStepCsv(header=True, separator=";")),
        derivative("a", "c"),
        root("a"),
    ]
    assert definition_hash(other) not in {definition_hash(each) for each in others}
