"""Manifests of older specifications mean the same after the upgrade, and keep their comments."""

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.manifest import from_manifest
from odfbuild.project.read import read_manifests
from odfbuild.project.upgrade import ManifestUpgrade, upgrade
from odfbuild.project.yaml import read_documents
from tests.project.upgrade.documents import Layout, modern, snapshots, written
from tests.support.projects import REPOSITORY

SHARED = Path(os.environ.get("ODFBUILD_MANIFESTS") or REPOSITORY.parent / "shared")
REAL = sorted(SHARED.glob("manifests*/**/*.yaml"))
KEY = bytes(range(32))

HEAD = "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: a\n  kind: Root\n  metadata:\n"


def upgraded(text: str) -> ManifestUpgrade:
    """Upgrade, and see that a second time changes nothing."""
    result = upgrade(text, "a.yaml")
    again = upgrade(result.text, "a.yaml")
    assert (again.text, again.edits, again.moves) == (result.text, (), ())
    return result


def value(text: str) -> Any:
    (document,) = read_documents(text, "a.yaml")
    return document.value


def refused(text: str) -> list[str]:
    result = upgrade(text, "a.yaml")
    assert result.text == text
    return [found.code for found in result.refused]


def said(result: ManifestUpgrade) -> list[str]:
    return [f"{each.span.line}:{each.span.column} {each.what}" for each in result.rewrites]


def lost(result: ManifestUpgrade) -> list[str]:
    return [f"{each.span.line}:{each.span.column} {each.code}" for each in result.lost if each.span]


@given(snapshots(), st.randoms(use_true_random=False), st.booleans())
def test_a_snapshot_of_old_means_the_same_in_any_layout(
    content: dict[str, Any], chance: Random, as_json: bool
) -> None:
    layout = Layout(chance, as_json)
    result = upgraded(written(content, layout))
    assert result.refused == ()
    expected = {"kind": "DatasetSnapshot", "version": 1, "content": modern(content)}
    assert from_manifest(value(result.text)) == from_manifest(expected)
    assert read_manifests(result.text, "a.yaml").errors == []
    if as_json and not result.lost:
        assert json.loads(result.text) == value(result.text)
    for comment in layout.comments:
        assert result.text.count(comment) == 1


@given(snapshots(), st.randoms(use_true_random=False))
def test_what_is_left_out_is_said_and_kept_as_a_comment(
    content: dict[str, Any], chance: Random
) -> None:
    result = upgrade(written(content, Layout(chance)), "a.yaml")
    source = content["source"]
    fields = {**source.get("read", {}), **source.get("merge", {})}
    gone = [key for key in fields if key not in _kept(modern(content))]
    assert sorted(each.what.split("`")[1] for each in result.lost) == sorted(gone)
    for key in gone:
        lines = [line for line in result.text.splitlines() if key in line.replace("'", "")]
        assert any(line.lstrip(" -").startswith("#") for line in lines)


def _kept(content: dict[str, Any]) -> set[str]:
    events = content["metadata"]
    return {key for event in events for part in ("read", "merge") for key in event.get(part, ())}


def test_a_snapshot_of_old_is_edited_where_it_differs_only() -> None:
    old = """\
# cities of the world
apiVersion: 1  # never changed
kind: DatasetSnapshot
content:
  id: org.example.cities
  source:  # polled
    kind: root
    fetch:
      kind: filesGlob
      path: 'data/*.csv'

    read:
      kind: jsonLines
      multiLine: false  # one a line
      schema:
      - a   STRING
    preprocess:
      kind: sql
      engine: spark
      query: |
        select a  # all
          from input
    merge:
      kind: snapshot
      primaryKey: [ a ]
      obsvAdded: I
  # when
  vocab:
    eventTimeColumn: "date"
"""
    new = """\
# cities of the world
version: 1  # never changed
kind: DatasetSnapshot
content:
  name: org.example.cities
  kind: Root
  metadata:  # polled
  - kind: SetPollingSource
    fetch:
      kind: FilesGlob
      path: 'data/*.csv'

    read:
      kind: NdJson
      # not in ODF any more (change the file in a prepare step):
      # multiLine: false  # one a line
      schema:
      - a   STRING
    preprocess:
      kind: Sql
      engine: spark
      query: |
        select a  # all
          from input
    merge:
      kind: Snapshot
      primaryKey: [ a ]
      # not in ODF any more (read that column; operationTypeColumn in SetVocab renames it):
      # obsvAdded: I
  # when
  - kind: SetVocab
    eventTimeColumn: "date"
"""
    result = upgraded(old)
    assert result.text == new
    assert said(result)[:3] == [
        "2:1 `apiVersion` is now `version`",
        "5:3 `id` is now `name`",
        "6:3 `source` is the event `SetPollingSource`",
    ]
    assert lost(result) == ["14:7 left-out", "26:7 left-out"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{id: x, name: y}", {"datasetRef": "x", "alias": "y"}),
        ("{name: y}", {"datasetRef": "y"}),
        ("{id: x}", {"datasetRef": "x"}),
        ("{datasetRef: x, name: y}", {"datasetRef": "x", "alias": "y"}),
        ("{datasetRef: x, alias: y}", {"datasetRef": "x", "alias": "y"}),
        ("x.y", {"datasetRef": "x.y"}),
    ],
)
def test_inputs_are_references_with_an_alias(old: str, new: dict[str, str]) -> None:
    text = HEAD + f"  - kind: setTransform\n    inputs:\n    - {old}\n"
    assert value(upgraded(text).text)["content"]["metadata"][0]["inputs"] == [new]


def test_temporal_tables_have_names() -> None:
    text = HEAD + "  - {kind: setTransform, transform: {kind: sql, temporalTables: [{id: x}]}}\n"
    transform = value(upgraded(text).text)["content"]["metadata"][0]["transform"]
    assert transform == {"kind": "Sql", "temporalTables": [{"name": "x"}]}


def _input(ref: str) -> str:
    return HEAD + f"  - kind: SetTransform\n    inputs:\n    - datasetRef: {ref}\n"


def test_ids_are_written_in_base16() -> None:
    from multiformats import multibase

    wanted = str(DatasetId(KEY))
    for data in (b"\xed\x01" + KEY, b"\x01\xed\x01\x00\x20" + KEY):
        old = "did:odf:" + multibase.encode(data, "base58btc")
        assert upgraded(_input(old)).text == _input(wanted)
        assert upgraded(_input(f'"{old}"')).text == _input(f'"{wanted}"')


def test_an_id_that_holds_a_hash_is_left_and_said() -> None:
    text = _input("did:odf:z4k88e8oT6CUiFQSbmHPViLQGHoX8x5Fquj9WvvPdSCvzTRWGfJ")
    result = upgraded(text)
    assert (result.text, lost(result)) == (text, ["9:19 legacy-id"])


@pytest.mark.parametrize("ref", ["did:odf:z0", "'did:odf:'", "did:odf:fed01", "did:key:z6Mk"])
def test_what_is_no_id_of_any_time_is_left_to_the_reader(ref: str) -> None:
    assert upgraded(_input(ref)).text == _input(ref)


def test_hashes_and_kinds_of_blocks_are_spelled_as_today() -> None:
    text = (
        "kind: MetadataBlock\nversion: 2\ncontent:\n  systemTime: 2024-01-01T00:00:00Z\n"
        "  prevBlockHash: {}\n  sequenceNumber: 1\n  event: {{kind: {}}}\n"
    )
    old = text.format("zW1hhjLTLzsPxUYdrw5v4GbuFzS1Pjf1oQUWAqsXHT2DWWA", "disablePollingSource")
    new = value(upgraded(old).text)["content"]
    assert new["prevBlockHash"].startswith("f1620")
    assert new["event"] == {"kind": "DisablePollingSource"}


def test_events_are_spelled_as_today() -> None:
    text = "kind: MetadataEvent\nversion: 1\ncontent: {kind: setInfo, description: x}\n"
    assert upgraded(text).text == text.replace("setInfo", "SetInfo")


def test_blocks_of_old_are_refused() -> None:
    assert refused("kind: MetadataBlock\ncontent:\n  blockHash: abc\n") == ["legacy-block"]


@pytest.mark.parametrize(
    "text",
    [
        "content: {id: a, source: {kind: root}, metadata: []}",
        "content: {id: a, source: {kind: cloud}}",
        "content:\n  id: a\n  source: &s\n    kind: root\n",
        "content:\n  id: a\n  other: &s {kind: root}\n  source: *s\n",
        "content:\n  id: a\n  ? source\n  : kind: root\n",
    ],
)
def test_an_unusual_layout_is_refused_and_left(text: str) -> None:
    assert refused(f"kind: DatasetSnapshot\n{text}") == ["legacy-layout"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "- kind: root\n",
        "odfbuild: 1\nname: x\n",
        "kind: Deployment\nmetadata: {name: x}\n",
        "kind: DatasetSnapshot\nversion: 1\ncontent: text\n",
        "id: 5\nsource: here\n",
    ],
)
def test_what_is_no_manifest_is_passed_over(text: str) -> None:
    result = upgraded(text)
    assert (result.text, result.rewrites, result.refused) == (text, (), ())


def test_a_kind_that_an_alias_repeats_is_rewritten_once() -> None:
    text = HEAD + "  - kind: SetPollingSource\n    prepare:\n    - &p {kind: pipe}\n    - *p\n"
    assert upgraded(text).text == text.replace("pipe", "Pipe")


def test_documents_of_one_file_are_upgraded_one_by_one() -> None:
    old = "id: a\nsource: {kind: derivative}\n"
    new = "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: a\n  kind: Derivative\n"
    result = upgraded(f"{old}---\n{HEAD}---\n{old}")
    assert result.text.count(new) == 2
    assert HEAD in result.text


def test_line_ends_of_windows_stay() -> None:
    old = "kind: DatasetSnapshot\ncontent:\n  id: a\n  source:\n    kind: derivative\n  vocab:\n"
    result = upgraded(old.replace("\n", "\r\n"))
    assert result.text == upgraded(old).text.replace("\n", "\r\n")
    assert value(result.text)["content"]["metadata"][1] == {"kind": "SetVocab"}


@pytest.mark.skipif(not REAL, reason="the published manifests are not in ../shared")
def test_published_manifests_decode_and_mean_the_same_after_the_upgrade() -> None:
    assert len(REAL) > 50
    for path in REAL:
        text = path.read_text("utf-8")
        result = upgraded(text)
        assert (result.lost, result.refused) == ((), ()), path
        for before, after in zip(
            read_documents(text, "a"), read_documents(result.text, "a"), strict=True
        ):
            assert from_manifest(before.value) == from_manifest(after.value), path
        old, new = text.splitlines(), result.text.splitlines()
        changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        assert all(a.lower() == b.lower() for a, b in changed), path
