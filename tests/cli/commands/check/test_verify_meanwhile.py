"""verify beside others: what they gave up is not missing, and what is damaged is found."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.verify import chain, history, run
from odfbuild.executors.verify.read_heads import LOOKS, UNCERTAIN, references
from odfbuild.executors.verify.recorded_inputs import RecordedInputs
from odfbuild.odf.identity import DatasetId
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.chain.index import Index
from odfbuild.state.chain.objects import MissingObjectError
from odfbuild.state.remote.errors import UnreachableRepositoryError
from odfbuild.state.workspace import Workspace
from tests.cli.commands.check.test_verify import dataset, flip
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside

Patch = pytest.MonkeyPatch
COLLECT = ("gc", "--older-than", "0s")


@pytest.fixture
def ask(project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Patch) -> Inside:
    monkeypatch.setattr(run, "_FIRST_PAUSE", 0.0)
    asked = Inside(project, capsys, monkeypatch, FakeEngine())
    (project / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n", "utf-8")
    assert asked("apply", "--yes").code == 0
    return asked


def added(project: Path, ask: Inside) -> Callable[[], None]:
    """Return what appends to `src` and what reads it, each time it is called."""
    numbers = count(3)

    def add() -> None:
        number = next(numbers)
        text = f"t,k,v\n2024-02-{number:02},x{number},{number}\n"
        (project / "data" / f"{number}.csv").write_text(text, "utf-8")
        assert ask("apply", "--yes").code == 0

    return add


def before(monkeypatch: Patch, place: Any, name: str, do: Callable[[], None], times: int) -> None:
    """Have others do something before a function is called, so many times."""
    left, function = [None] * times, getattr(place, name)
    busy: list[None] = []

    def called(*given: Any, **more: Any) -> Any:
        if left and not busy:
            left.pop()
            busy.append(None)  # others verify nothing
            try:
                do()
            finally:
                busy.clear()
        return function(*given, **more)

    monkeypatch.setattr(place, name, called)


WAYS_TO_GIVE_UP = {
    "compact": ("compact", "src", "--hard", "--yes"),
    "reset": ("reset", "src", "--sequence", "3", "--yes"),
}


@pytest.mark.parametrize("way", WAYS_TO_GIVE_UP)
@pytest.mark.parametrize("place", ["files", "blocks"])
def test_what_others_gave_up_and_collected_is_not_missing(
    place: str, way: str, ask: Inside, monkeypatch: Patch
) -> None:
    def give_up() -> None:
        assert ask(*WAYS_TO_GIVE_UP[way]).code == 0
        assert ask("rebuild", "out", "--yes").code == 0  # which let gc have what it read
        assert ask(*COLLECT).code == 0

    name = "file_problems" if place == "files" else "check_append"
    before(monkeypatch, chain, name, give_up, 1)
    done = ask("verify", "src")
    assert done.code == 0, done.out
    assert "src  ok" in done.out


def test_a_derivative_that_was_rebuilt_on_another_input_meanwhile_is_looked_at_again(
    ask: Inside, monkeypatch: Patch
) -> None:
    """The old steps are compared with the new chain of the input, which lacks their blocks."""

    def rewrite() -> None:
        assert ask("compact", "src", "--hard", "--yes").code == 0
        assert ask("rebuild", "out", "--yes").code == 0
        assert ask(*COLLECT).code == 0

    before(monkeypatch, RecordedInputs, "problems", rewrite, 1)
    done = ask("verify", "out")
    assert done.code == 0, done.out


def test_a_step_that_is_run_again_is_not_one_that_others_gave_up(
    ask: Inside, monkeypatch: Patch
) -> None:
    def rewrite() -> None:
        assert ask("compact", "src", "--hard", "--yes").code == 0
        assert ask("rebuild", "out", "--yes").code == 0
        assert ask(*COLLECT).code == 0

    before(monkeypatch, run, "_within", rewrite, 1)
    done = ask("verify", "out", "--replay")
    assert done.code == 0, done.out
    assert "1 step run again" in done.out


def fail_to_read_once(monkeypatch: Patch) -> None:
    """Let the first history that is read be one that is not there."""
    failures, read = [None], history.History.__init__

    def fails_once(self: history.History, of: Dataset, tip: Any) -> None:
        if failures:
            failures.pop()
            raise MissingObjectError(tip, "the folder")
        read(self, of, tip)

    monkeypatch.setattr(history.History, "__init__", fails_once)


def test_steps_of_a_history_that_could_not_be_read_for_a_moment_are_run_again(
    ask: Inside, monkeypatch: Patch
) -> None:
    """A look that passes says nothing of steps that nobody has seen."""
    fail_to_read_once(monkeypatch)
    done = ask("verify", "out", "--replay")
    assert done.code == 0, done.out
    assert "2 steps run again" in done.out


def test_steps_of_a_history_that_can_never_be_read_do_not_pass(
    ask: Inside, monkeypatch: Patch
) -> None:
    def fails(self: history.History, of: Dataset, tip: Any) -> None:
        raise MissingObjectError(tip, "the folder")

    monkeypatch.setattr(history.History, "__init__", fails)
    done = ask("verify", "out", "--replay")
    assert done.code == 7, done.out


def test_inputs_are_verified_though_a_history_could_not_be_read_for_a_moment(
    ask: Inside, monkeypatch: Patch
) -> None:
    fail_to_read_once(monkeypatch)
    done = ask("verify", "out", "--recursive")
    assert done.code == 0, done.out
    assert "2 datasets verified, 0 failed." in done.out


def test_a_dataset_that_others_removed_meanwhile_is_none_that_lost_its_head(
    project: Path, ask: Inside, monkeypatch: Patch
) -> None:
    workspace = Workspace(project / ".odfbuild")
    (alias,) = (each for each in workspace.names() if str(each) == "out")
    removed = dataset(project, "out")
    head = removed.head()
    assert head is not None

    def remove() -> None:
        workspace.remove(alias, removed.id, head)

    before(monkeypatch, chain, "references", remove, 1)
    done = ask("verify")
    assert done.code == 0, done.out
    assert "out was removed while datasets were verified" in done.err
    assert "1 dataset verified, 0 failed." in done.out


def test_a_dataset_with_a_name_and_no_head_is_damaged(project: Path, ask: Inside) -> None:
    path = dataset(project, "out").slices()[0][1].parents[1] / "refs" / "head"
    path.unlink()
    done = ask("verify")
    assert done.code == 7
    assert "the dataset has no head" in done.out


@pytest.mark.parametrize("part", ["data", "blocks"])
def test_damage_is_found_though_others_move_the_head_all_the_time(
    part: str, project: Path, ask: Inside, monkeypatch: Patch
) -> None:
    source = dataset(project, "src")
    head, blocks = source.stores.heads, [hash for hash, _ in source.blocks()]
    oldest = source.slices()[0][1]
    flip(oldest if part == "data" else oldest.parents[1] / "blocks" / str(blocks[2]))
    looks: list[None] = []

    def moved(of: Dataset) -> Any:
        found = references(of)
        looks.append(None)
        new, old = (blocks[-2], blocks[-1])[:: -1 if len(looks) % 2 == 0 else 1]
        head.swap(HEAD, expected=old, new=new)
        return found

    monkeypatch.setattr(chain, "references", moved)
    done = ask("verify", "src")
    assert done.code == 7
    assert len(looks) == LOOKS
    assert ("has other bytes" if part == "data" else "hash") in done.out, done.out
    assert UNCERTAIN not in done.out


def test_what_each_look_finds_otherwise_is_said_to_be_uncertain(
    project: Path, ask: Inside, monkeypatch: Patch
) -> None:
    add, numbers = added(project, ask), count()

    def problems(*_: Any) -> tuple[tuple[str, ...], bool]:
        return (f"wrong in look {next(numbers)}",), False

    looks: list[None] = []

    def moved(of: Dataset) -> Any:
        found = references(of)
        if len(looks) < LOOKS:
            looks.append(None)
            add()
        return found

    monkeypatch.setattr(chain, "references", moved)
    monkeypatch.setattr(chain, "file_problems", problems)
    done = ask("verify", "src")
    assert done.code == 7
    assert UNCERTAIN in done.out
    assert "wrong in look" not in done.out


def test_a_chain_that_others_rewrite_while_it_is_read_is_not_damaged(
    project: Path, ask: Inside, monkeypatch: Patch
) -> None:
    """As `status`, `plan` and others read it."""

    def rewrite() -> None:
        assert ask("compact", "src", "--hard", "--yes").code == 0
        assert ask("rebuild", "out", "--yes").code == 0
        assert ask(*COLLECT).code == 0

    workspace = Workspace(project / ".odfbuild")
    workspace.index = Index()
    before(monkeypatch, Dataset, "_back", rewrite, 1)
    states = {str(alias) for alias in workspace.states()}
    assert states == {"out", "src"}
    assert not workspace.damage()


def test_a_store_that_does_not_answer_is_no_damage(ask: Inside, monkeypatch: Patch) -> None:
    def unreachable(*_: Any) -> Iterator[Any]:
        raise UnreachableRepositoryError(what="the store does not answer", why="a test", fix="none")

    monkeypatch.setattr(Dataset, "_back", unreachable)
    done = ask("verify", "src")
    assert done.code == 1
    assert "error[unreachable-repository]" in done.err
    assert "FAILED" not in done.out


def test_what_is_not_reached_is_not_waited_for(ask: Inside, monkeypatch: Patch) -> None:
    """A dataset that others do not touch is looked at once, whatever is wrong with it."""
    looks: list[DatasetId] = []

    def counted(of: Dataset) -> Any:
        looks.append(of.id)
        return references(of)

    monkeypatch.setattr(chain, "references", counted)
    monkeypatch.setattr(chain, "file_problems", lambda *_: (("it is wrong",), False))
    assert ask("verify", "src").code == 7
    assert len(looks) == 1
