"""odfbuild ref, and log --ref: names for blocks of a chain."""

import json
import re
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.process.inside import without_jvm
from tests.support.process.within import Within

BLOCK = re.compile(r"^block (f1620[0-9a-f]{64})$", re.MULTILINE)


@pytest.fixture
def here(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(project, capsys, monkeypatch)


def dataset(at: Within, name: str = "src") -> Dataset:
    found = Workspace(at.folder / ".odfbuild").open(DatasetAlias.parse(name))
    assert found is not None
    return found


def chain(at: Within) -> list[str]:
    return [str(hash) for hash, _ in dataset(at).blocks()]


def folder(at: Within) -> Path:
    return dataset(at).slices()[0][1].parents[1]


def test_a_dataset_begins_with_its_head(here: Within) -> None:
    *_, line = here.done("ref", "list", "src").splitlines()
    blocks = chain(here)
    assert line.split() == ["head", blocks[-1], str(len(blocks) - 1), "-"]


def test_a_reference_is_set_listed_moved_and_deleted(here: Within) -> None:
    blocks = chain(here)
    assert here.done("ref", "set", "src", "release", "1") == f"release  {blocks[1]}  (new)\n"
    *_, line = here.done("ref", "list", "src").splitlines()
    assert line.split() == ["release", blocks[1], "1", str(len(blocks) - 2), "behind"]
    moved = here.done("ref", "set", "SRC", "release", blocks[2][-8:])
    assert moved == f"release  {blocks[2]}  (was {blocks[1]})\n"
    assert here.done("ref", "set", "src", "release", "2").endswith("(as it was)\n")
    assert here.done("ref", "set", "src", "release").split()[1] == blocks[-1]
    assert here.done("ref", "delete", "src", "release") == (
        f"release is deleted; it was {blocks[-1]}\n"
    )
    assert [each["name"] for each in json.loads(here.done("ref", "list", "src", "-o", "json"))] == [
        "head"
    ]


def test_the_list_can_be_read_by_programs(here: Within) -> None:
    here.done("ref", "set", "src", "release", "0")
    blocks = chain(here)
    assert json.loads(here.done("ref", "list", "src", "-o", "json"))[1] == {
        "name": "release",
        "block": blocks[0],
        "sequenceNumber": 0,
        "behind": len(blocks) - 1,
        "ahead": 0,
        "problem": None,
    }


def test_a_reference_does_not_go_back(here: Within) -> None:
    blocks = chain(here)
    here.done("ref", "set", "src", "release", "2")
    done = here("ref", "set", "src", "release", "1")
    assert (done.code, "error[not-fast-forward]" in done.err) == (1, True)
    assert blocks[2] in done.err
    assert blocks[1] in done.err
    assert (folder(here) / "refs" / "release").read_text() == blocks[2]


@pytest.mark.parametrize("command", [["set", "src", "head", "0"], ["delete", "src", "head"]])
def test_the_head_is_left_to_apply(here: Within, command: list[str]) -> None:
    before = chain(here)
    done = here("ref", *command)
    assert (done.code, "error[protected-ref]" in done.err) == (1, True)
    assert chain(here) == before


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["set", "src", "Release", "0"], "invalid-ref-name"),
        (["set", "src", "../head", "0"], "invalid-ref-name"),
        (["set", "src", "release", "99"], "unknown-block"),
        (["set", "src", "release", "abcdef0"], "unknown-block"),
        (["set", "srcc", "release", "0"], "state"),
        (["delete", "src", "release"], "unknown-ref"),
        (["list", "nothing-like-it"], "state"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(here: Within, command: list[str], code: str) -> None:
    done = here("ref", *command)
    assert (done.code, f"error[{code}]" in done.err) == (1, True)
    assert [path.name for path in (folder(here) / "refs").iterdir()] == ["head"]


def test_a_group_without_a_command_is_a_mistake_of_usage(here: Within) -> None:
    for group in ("ref", "key", "inspect"):
        assert here(group).code == 64
        assert here(group, "nothing").code == 64


def test_the_log_of_a_reference_ends_with_its_block(here: Within) -> None:
    here.done("ref", "set", "src", "release", "2")
    blocks = chain(here)
    assert BLOCK.findall(here.done("log", "src", "--ref", "release")) == blocks[2::-1]
    assert BLOCK.findall(here.done("log", "src", "--ref", "release", "-n", "1")) == [blocks[2]]
    assert BLOCK.findall(here.done("log", "src")) == blocks[::-1]
    done = here("log", "src", "--ref", "relaese")
    assert (done.code, "did you mean 'release'?" in done.err) == (1, True)


def test_a_branch_stays_while_the_head_goes_on(here: Within) -> None:
    here.done("ref", "set", "src", "release")
    before = chain(here)
    (here.folder / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n")
    done = without_jvm("apply", "--yes", cwd=here.folder)
    assert done.code == 0, done.err
    assert chain(here)[: len(before)] == before
    listed = {each["name"]: each for each in json.loads(here.done("ref", "list", "src", "-ojson"))}
    assert listed["release"]["block"] == before[-1]
    assert listed["release"]["behind"] == 1
    assert here.done("plan").startswith("No changes.")


def test_a_held_lock_is_waited_for_and_then_told(here: Within) -> None:
    with dataset(here).stores.heads.lock():
        done = here("ref", "set", "src", "release", "--lock-timeout", "0")
    assert (done.code, "error[locked]" in done.err) == (6, True)


# verify


def test_verify_rechecks_what_only_a_reference_reaches(here: Within) -> None:
    """The head is set back to the block before, as a reset would."""
    found = dataset(here)
    here.done("ref", "set", "src", "later")
    blocks = chain(here)
    (folder(here) / "refs" / "head").write_text(blocks[-2])
    assert "  ok  " in here.done("verify", "src")
    assert f" {len(blocks)} blocks" in here.done("verify", "src")
    path = found.stores.blocks.path(
        list(found.blocks(upto=found.stores.heads.read("later")))[-1][0]
    )
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    done = here("verify", "src")
    assert done.code == 7
    assert "the reference later: " in done.out


@pytest.mark.parametrize("text", ["", "f1620", "f1620" + "0" * 64])
def test_verify_finds_a_reference_that_leads_nowhere(here: Within, text: str) -> None:
    (folder(here) / "refs" / "lost").write_text(text)
    done = here("verify", "src")
    assert done.code == 7
    assert "the reference lost: " in done.out


def test_verify_finds_a_reference_to_another_dataset(here: Within) -> None:
    other = dataset(here, "out")
    head = other.head()
    assert head is not None
    for hash, _ in other.blocks():
        data = other.stores.blocks.get(hash)
        (folder(here) / "blocks" / str(hash)).write_bytes(data)
    for piece, path in other.slices():
        (folder(here) / "data" / str(piece.physical_hash)).write_bytes(path.read_bytes())
    (folder(here) / "refs" / "foreign").write_text(str(head))
    done = here("verify", "src")
    assert done.code == 7
    assert "the reference foreign: " in done.out
    assert str(other.id) in done.out


def test_a_reference_of_an_ancestor_costs_no_second_look(here: Within) -> None:
    before = here.done("verify", "src")
    here.done("ref", "set", "src", "release", "1")
    assert here.done("verify", "src") == before
