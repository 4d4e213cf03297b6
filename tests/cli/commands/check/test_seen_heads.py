"""verify remembers heads outside of the workspace: what does not go on from them fails."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.verify import heads
from odfbuild.executors.verify.recorded_inputs import RecordedInputs
from odfbuild.odf.events import ExecuteTransform
from odfbuild.state.files.checksum import with_check_sum
from odfbuild.state.workspace import Workspace
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


MEANWHILE = {
    "apply": (("verify", "src", "out"), ("apply", "--yes")),
    "compact": (("verify", "src"), ("compact", "src", "--hard", "--yes")),
    "rebuild": (("verify", "src", "out"), ("rebuild", "out", "--yes")),
    "reset": (("verify", "out"), ("reset", "out", "4", "--yes")),
}


@pytest.mark.parametrize("command", MEANWHILE)
@pytest.mark.parametrize("place", ["inputs", "heads"])
def test_what_is_done_while_a_chain_is_verified_is_no_surprise(
    place: str, command: str, ask: Inside, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command moves a head after its blocks were read, or those of an input of it."""
    (project / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n", "utf-8")
    assert ask("apply", "--yes").code == 0
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-04,d,4\n", "utf-8")
    asked, other = MEANWHILE[command]
    done: list[int] = []

    def meanwhile(of: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **more: Any) -> Any:
            if place == "inputs":  # its chain is read, and then others go on
                of(*given, **more)
            if not done:
                done.append(1)
                assert ask(*other).code == 0
            return of(*given, **more)

        return called

    if place == "heads":
        monkeypatch.setattr(heads, "head_findings", meanwhile(heads.head_findings))
    else:
        monkeypatch.setattr(RecordedInputs, "problems", meanwhile(RecordedInputs.problems))
    found = ask(*asked)
    assert found.code == 0, found.out
    assert done or asked == ("verify", "src")
    monkeypatch.undo()
    assert ask(*asked).code == 0
    set_back(project, asked[-1])
    assert ask(*asked).code == 7


def test_inputs_that_grew_while_datasets_are_verified_are_read_again(
    ask: Inside, project: Path
) -> None:
    workspace = Workspace(project / ".odfbuild")
    inputs = RecordedInputs(workspace, every=True)
    for number in 2, 3, 4:
        (project / "data" / f"{number}.csv").write_text(f"t,k,v\n2024-01-0{number},c{number},3\n")
        assert ask("apply", "--yes").code == 0
        events = [block.event for _, block in dataset(project, "out").blocks()]
        steps = [each for each in events if isinstance(each, ExecuteTransform)]
        assert [inputs.problems(each) for each in steps] == [()] * len(steps)
    set_back(project, "src")
    (lost,) = RecordedInputs(workspace, every=True).problems(steps[-1])
    assert "is not on its chain any more" in lost


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
    assert done.err.count("not recorded") == 1
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
