"""The lock file: what is written is read, by the fast reader and the strict one alike."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.odf.events import DataSchema
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import column_lines, parse_ddl
from odfbuild.project import lock as lockfile
from odfbuild.project.lock import (
    LOCK_FILE,
    Lock,
    LockedPackage,
    LockedSchema,
    lock_text,
    parse_lock,
    read_entries,
    read_lock,
    write_lock,
)
from tests.support.values.strategies import aliases, multihashes, names, records

A, B, C = (f"f1620{digit * 64}" for digit in "abc")
hashes = multihashes.map(lambda each: f"f1620{each.digest.hex()}")
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20)
lines = records(DataSchema).filter(lambda s: not any(opaque_parts(s))).map(column_lines)
packages = st.builds(
    LockedPackage,
    tree=hashes,
    git=texts,
    rev=st.none() | texts,
    commit=st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
) | st.builds(LockedPackage, tree=hashes, path=texts)
versions = st.just("4.3.0+odfbuild.1") | texts
schemas = st.builds(
    LockedSchema,
    definition=hashes,
    inputs=hashes,
    engine=versions,
    columns=lines.filter(bool),
) | st.builds(
    LockedSchema,
    definition=hashes,
    inputs=hashes,
    engine=versions,
    unknown=st.just("the columns of the input a/b.c are not known") | texts,
)
locks = st.builds(
    Lock,
    packages=st.dictionaries(names, packages, max_size=3),
    schemas=st.dictionaries(aliases.map(str), schemas, max_size=3),
)


@given(locks)
def test_a_lock_comes_back_from_its_text(lock: Lock) -> None:
    assert parse_lock(lock_text(lock)) == lock


@given(locks)
def test_equal_locks_are_equal_bytes_in_whatever_order_they_were_made(lock: Lock) -> None:
    turned = Lock(
        packages=dict(reversed([*lock.packages.items()])),
        schemas=dict(reversed([*lock.schemas.items()])),
    )
    assert lock_text(turned) == lock_text(lock)


@given(locks, st.data())
def test_the_fast_reader_takes_only_what_the_strict_one_takes(
    lock: Lock, data: st.DataObject
) -> None:
    text = lock_text(lock)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    damaged = (
        text[:at]
        + data.draw(st.sampled_from(["", " ", "\n", "-", "'", "x:", "#"]))
        + text[at + cut :]
    )
    _, quick = read_entries(damaged)
    if quick:
        strict = _strictly(damaged)
        assert strict is None or {n: LockedSchema(**v) for n, v in quick.items()} == strict.schemas


def _strictly(text: str) -> Lock | None:
    """Read without the fast way; None for what it refuses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lockfile, "read_entries", lambda whole: (whole, {}))
        try:
            return parse_lock(text)
        except ProjectErrors:
            return None


def usual() -> Lock:
    return Lock(
        packages={
            "common": LockedPackage(
                tree=A, git="https://x.example/c.git", rev="v1", commit="ab" * 20
            )
        },
        schemas={
            "b.daily": LockedSchema(
                definition=A, inputs=B, engine="4.3.0+odfbuild.1",
                columns=("event_time TIMESTAMP NOT NULL", "`a b` STRING", "price DECIMAL(10,2)"),
            ),
            "a.files": LockedSchema(
                definition=C, inputs=A, engine="4.3.0+odfbuild.1",
                unknown="the source declares no columns, so its first rows decide",
            ),
        },
    )  # fmt: skip


def test_it_reads_like_a_list_of_columns() -> None:
    assert lock_text(usual()) == (
        "# Written by odfbuild lock and odfbuild deps update: review it, do not edit it.\n"
        "odfbuild: 1\n"
        "packages:\n"
        "  common:\n"
        "    git: https://x.example/c.git\n"
        "    rev: v1\n"
        f"    commit: {'ab' * 20}\n"
        f"    tree: {A}\n"
        "schemas:\n"
        "  a.files:\n"
        f"    definition: {C}\n"
        f"    inputs: {A}\n"
        "    engine: 4.3.0+odfbuild.1\n"
        "    unknown: the source declares no columns, so its first rows decide\n"
        "  b.daily:\n"
        f"    definition: {A}\n"
        f"    inputs: {B}\n"
        "    engine: 4.3.0+odfbuild.1\n"
        "    columns:\n"
        "    - event_time TIMESTAMP NOT NULL\n"
        "    - '`a b` STRING'\n"
        "    - price DECIMAL(10,2)\n"
    )


def test_usual_schemas_are_read_the_fast_way() -> None:
    _, quick = read_entries(lock_text(usual()))
    assert set(quick) == {"a.files", "b.daily"}


def test_a_schema_counts_for_the_definition_and_inputs_it_was_made_for() -> None:
    lock, daily = usual(), DatasetAlias.parse("b.daily")
    found = lock.schema_of(daily, A, B)
    assert found == parse_ddl("event_time TIMESTAMP NOT NULL, `a b` STRING, price DECIMAL(10,2)")
    assert lock.schema_of(daily, C, B) is None
    assert lock.schema_of(daily, A, A) is None
    assert lock.schema_of(DatasetAlias.parse("b.hourly"), A, B) is None


def test_what_was_not_known_stays_unknown() -> None:
    assert usual().schema_of(DatasetAlias.parse("a.files"), C, A) is None


def test_columns_that_were_edited_by_hand_are_not_believed() -> None:
    lock = parse_lock(lock_text(usual()).replace("price DECIMAL(10,2)", "price DOUBBLE"))
    assert lock.schema_of(DatasetAlias.parse("b.daily"), A, B) is None


def test_a_project_without_the_file_has_no_lock(tmp_path: Path) -> None:
    assert read_lock(tmp_path) is None


def test_writing_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_lock(tmp_path, usual())
    other = replace(usual(), packages={})
    write_lock(tmp_path, other)
    assert read_lock(tmp_path) == other
    assert [each.name for each in tmp_path.iterdir()] == [LOCK_FILE]


def test_a_failed_write_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_lock(tmp_path, usual())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_lock(tmp_path, Lock())
    assert read_lock(tmp_path) == usual()
    assert [each.name for each in tmp_path.iterdir()] == [LOCK_FILE]


def refused(text: str) -> list[str]:
    with pytest.raises(ProjectErrors) as caught:
        parse_lock(text)
    spans = [each.span for each in caught.value.found]
    return [
        f"{span.line}: {each.what.removeprefix(LOCK_FILE + ': ')}"
        for span, each in zip(spans, caught.value.found, strict=True)
        if span is not None
    ]


def test_everything_that_is_wrong_is_told_with_its_place() -> None:
    text = (
        "odfbuild: 2\n"
        "more: 1\n"
        "packages:\n"
        "  a: {git: x, tree: y}\n"
        "  b: {git: x, path: y, commit: abc, tree: f1620}\n"
        "schemas:\n"
        f"  c: {{definition: {A}, inputs: 1, engine: x, columns: [a INT, b FOO]}}\n"
        f"  d: {{definition: {A}, inputs: {B}, engine: x}}\n"
        "  e: 5\n"
    )
    assert refused(text) == [
        "2: unknown key 'more'",
        "1: the format is not 1, the only one known here",
        "4: the package a is neither a commit of a repository nor a path",
        "4: 'tree' is not a hash",
        "5: the package b is neither a commit of a repository nor a path",
        "5: a commit is named by its full hash",
        "5: 'tree' is not a hash",
        "7: 'inputs' is not a hash",
        "7: 'inputs' is not a text",
        "7: not a column, from character 6 on: 'b FOO'",
        "8: the columns of d are missing, or both given and unknown",
        "9: e is not a mapping",
        "9: 'definition' is not a hash",
        "9: 'inputs' is not a hash",
        "9: the columns of e are missing, or both given and unknown",
    ]


@pytest.mark.parametrize("text", ["", "- 1\n", "odfbuild: 1\n---\nodfbuild: 1\n", "<<<<<<< HEAD\n"])
def test_what_is_no_lock_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(ProjectErrors) as caught:
        parse_lock(text)
    assert all(each.fix for each in caught.value.found)


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(ProjectErrors, match="cannot be read: Is a directory"):
        read_lock(tmp_path)
