"""verify remembers heads outside of the workspace: what does not go on from them fails."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.state.files.checksum import with_check_sum
from tests.cli.commands.check.test_verify import dataset
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside


@pytest.fixture
def ask(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def set_back(project: Path, name: str, by: int = 1) -> str:
    """Write an earlier block into refs/head, as somebody else would; return the head of before."""
    source = dataset(project, name)
    hashes = [str(hash) for hash, _ in source.blocks()]
    (source.slices()[0][1].parents[1] / "refs" / "head").write_text(hashes[-1 - by])
    return hashes[-1]


def test_a_chain_that_was_set_back_fails_until_it_is_accepted(ask: Inside, project: Path) -> None:
    assert ask("verify", "src").code == 0
    seen = set_back(project, "src")
    done = ask("verify", "src")
    assert done.code == 7
    assert "the head does not descend from the one that was seen last: block 4" in done.out
    assert seen in done.out
    assert "part after block 3" in done.out
    assert ask("verify", "src").code == 7
    assert ask("verify", "--accept-head", "src").code == 0
    assert ask("verify", "src").code == 0


def test_what_was_committed_here_counts_as_seen(ask: Inside, project: Path) -> None:
    (project / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n", "utf-8")
    assert ask("apply", "--yes").code == 0
    set_back(project, "src")
    assert ask("verify", "src").code == 7


def test_a_rewrite_of_ones_own_is_no_surprise(ask: Inside, project: Path) -> None:
    (project / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n", "utf-8")
    assert ask("apply", "--yes").code == 0
    assert ask("verify").code == 0
    for command in (("compact", "src", "--hard", "--yes"), ("rebuild", "out", "--yes")):
        assert ask(*command).code == 0
        assert ask("verify").code == (7 if command[0] == "compact" else 0)  # out was made of src
    block = str(next(hash for hash, _ in dataset(project, "src").blocks()))
    assert ask("reset", "src", block, "--yes").code == 0
    done = ask("verify", "src")
    assert done.code == 0, done.out


def test_another_copy_does_not_hide_that_a_chain_was_set_back(ask: Inside, project: Path) -> None:
    """A rewrite of a chain that is not the one that was seen changes nothing of what was seen."""
    assert ask("verify", "src").code == 0
    set_back(project, "src", 2)
    block = str(next(hash for hash, _ in dataset(project, "src").blocks()))
    assert ask("reset", "src", block, "--yes").code == 0
    assert ask("verify", "src").code == 7


def test_a_home_that_cannot_be_written_is_told_once(
    ask: Inside, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocked))
    done = ask("verify")
    assert done.code == 0
    assert done.err.count("not remembered") == 1
    assert str(blocked) in done.err


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "nonsense": lambda _: b"nonsense",
    "empty": lambda _: b"",
    "cut": lambda data: data[:-9],
    "flipped": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "endless": lambda _: b'{"head": "f1620%s", "sequence": 1e999, "next": null}' % (b"0" * 64),
    "deep": lambda _: b"[" * 100_000,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_memory_hides_no_rollback(how: str, ask: Inside, project: Path) -> None:
    """Nor is it written over, by a check or by a commit, until the head is accepted."""
    assert ask("verify", "src").code == 0
    id = dataset(project, "src").id.multibase
    path = Path(os.environ["XDG_STATE_HOME"]) / "odfbuild" / "heads" / id
    data = DAMAGES[how](path.read_bytes())
    if how in ("endless", "deep"):
        data = with_check_sum(data.decode(), id).encode()
    path.write_bytes(data)
    set_back(project, "src")
    done = ask("verify")
    assert done.code == 7
    assert "damaged-seen-head" in done.out
    assert "is damaged" in done.out
    (project / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n", "utf-8")
    done = ask("apply", "--yes", "src")
    assert done.code == 0, done
    assert done.err.count("is damaged") == 1
    assert path.read_bytes() == data
    assert ask("verify", "src").code == 7
    assert ask("verify", "--accept-head", "src").code == 0
    assert path.read_bytes() != data
    assert ask("verify", "src").code == 0


def test_a_head_that_is_asked_for_must_be_the_head(ask: Inside, project: Path) -> None:
    hashes = [str(hash) for hash, _ in dataset(project, "src").blocks()]
    assert ask("verify", "src", "--head", hashes[-1]).code == 0
    done = ask("verify", "src", "--head", hashes[-2])
    assert done.code == 7
    assert f"the head is {hashes[-1]} (block 4), not {hashes[-2]} as asked for" in done.out
    assert ask("verify", "src", "--head", hashes[-1][:12]).code == 64
    assert ask("verify", "--head", hashes[-1]).code == 64
