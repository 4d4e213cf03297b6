"""The keeper of a resident engine, and those who come to it, without a JVM."""

import fcntl
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from odfbuild.errors import Diagnostic
from odfbuild.executors.engine.spark.jvm import keeper, resident
from odfbuild.executors.engine.spark.jvm.attach import attach
from odfbuild.executors.engine.spark.jvm.keeper import Keeper
from odfbuild.executors.engine.spark.jvm.resident import (
    ResidentFolder,
    ResidentRecord,
    ask,
    differences,
    host,
    read_kept,
)

TRAITS = {"host": host(), "memory": "2g"}


@dataclass
class FakeDoor:
    """A JVM that lends numbers; it says what was done with it."""

    pid: int = 4242
    alive: bool = True
    lent: list[int] = field(default_factory=list)
    taken: list[tuple[object, str, bool]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def lend(self) -> tuple[object, int, str]:
        self.lent.append(len(self.lent))
        self.done.append("lend")
        return self.lent[-1], 1000 + self.lent[-1], f"secret {self.lent[-1]}"

    def take_back(self, entrance: object, tag: str, *, last: bool) -> None:
        self.taken.append((entrance, tag, last))

    def rest(self) -> None:
        self.done.append("rest")

    def wake(self) -> None:
        self.done.append("wake")

    def lives(self) -> bool:
        return self.alive

    def end(self) -> None:
        self.alive = False


@dataclass(frozen=True)
class Running:
    """A keeper at work in a thread of this process."""

    keeper: Keeper
    door: FakeDoor
    thread: threading.Thread

    @property
    def kept(self) -> ResidentRecord:
        found = read_kept(self.keeper.place)
        assert found is not None
        return found

    def use(self) -> tuple[socket.socket, dict[str, object]]:
        return ask(self.kept, {"ask": "use", "pid": 7})


@contextmanager
def kept(folder: Path, *, idle: float = 60.0) -> Iterator[Running]:
    place = ResidentFolder(folder)
    place.make()
    door = FakeDoor()
    keeper = Keeper(place, door, TRAITS, idle)
    with place.life.open("wb") as life:
        fcntl.flock(life, fcntl.LOCK_EX)
        thread = threading.Thread(target=keeper.serve)
        thread.start()
        try:
            eventually(place.kept.exists)
            yield Running(keeper, door, thread)
        finally:
            keeper.stop(now=True)
            thread.join(30)
            assert not thread.is_alive()


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.01)


def test_each_user_gets_an_entrance_that_is_closed_when_it_has_gone(tmp_path: Path) -> None:
    with kept(tmp_path) as running:
        one, first = running.use()
        two, second = running.use()
        assert (first["port"], first["secret"]) == (1000, "secret 0")
        assert (second["port"], second["secret"]) == (1001, "secret 1")
        assert first["tag"] != second["tag"]
        one.close()
        eventually(lambda: len(running.door.taken) == 1)
        two.close()
        eventually(lambda: len(running.door.taken) == 2)
        assert running.door.taken == [(0, first["tag"], False), (1, second["tag"], True)]


def test_who_does_not_know_the_secret_gets_no_answer(tmp_path: Path) -> None:
    with kept(tmp_path) as running:
        with pytest.raises((ValueError, OSError)):
            ask(replace(running.kept, secret="guessed"), {"ask": "use"})
        assert running.door.lent == []


def test_what_is_no_message_harms_nobody(tmp_path: Path) -> None:
    with kept(tmp_path) as running:
        for sent in (b"\n", b"[]\n", b"{\n", b"\xff\n"):
            with socket.create_connection(("127.0.0.1", running.kept.port)) as line:
                line.sendall(sent)
                assert line.recv(10) == b""
        line, answer = ask(running.kept, {"ask": "status"})
        line.close()
        assert answer["users"] == []


def test_it_ends_when_nobody_has_used_it_for_long_but_not_while_it_is_used(tmp_path: Path) -> None:
    with kept(tmp_path, idle=0.5) as running:
        line, _ = running.use()
        running.thread.join(1.5)
        assert running.thread.is_alive()
        line.close()
        running.thread.join(30)
        assert not running.thread.is_alive()
        assert not running.keeper.place.kept.exists()


def test_it_rests_once_while_nobody_uses_it_and_wakes_for_who_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "RESTED_AFTER", 0.3)
    with kept(tmp_path) as running:
        eventually(lambda: running.door.done == ["rest"])
        line, _ = running.use()
        with line:
            assert running.door.done == ["rest", "wake", "lend"]
            time.sleep(1)
            other, _ = running.use()
            other.close()
            time.sleep(1)
            assert running.door.done[3:] == ["lend"]
        eventually(lambda: running.door.done[4:] == ["rest"])
        time.sleep(1)
        assert running.door.done[4:] == ["rest"]


def test_a_cluster_that_does_not_answer_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "RESTED_AFTER", 0.0)
    with kept(tmp_path) as running:
        monkeypatch.setattr(FakeDoor, "rest", lambda _: 1 // 0)
        monkeypatch.setattr(FakeDoor, "wake", lambda _: 1 // 0)
        eventually(lambda: running.keeper.rested)
        line, answer = running.use()
        with line:
            assert answer["secret"] == "secret 0"


def test_one_that_is_stopping_waits_for_its_users_and_takes_no_more(tmp_path: Path) -> None:
    with kept(tmp_path) as running:
        there = running.kept
        line, _ = running.use()
        told, answer = ask(there, {"ask": "stop"})
        told.close()
        assert (answer["users"], answer["stopping"]) == ([7], True)
        assert not running.keeper.place.kept.exists()
        late, refused = ask(there, {"ask": "use", "pid": 8})
        late.close()
        assert refused == {"refused": "it is stopping"}
        assert running.thread.is_alive()
        line.close()
        running.thread.join(30)
        assert not running.thread.is_alive()


def test_one_that_is_told_to_stop_now_does_not_wait(tmp_path: Path) -> None:
    with kept(tmp_path) as running:
        line, _ = running.use()
        told, _ = ask(running.kept, {"ask": "stop", "now": True})
        told.close()
        running.thread.join(30)
        assert not running.thread.is_alive()
        line.close()


def test_more_users_than_it_takes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odfbuild.executors.engine.spark.jvm.keeper._MOST", 1)
    with kept(tmp_path) as running:
        line, _ = running.use()
        other, refused = running.use()
        other.close()
        assert refused == {"refused": "it is full"}
        line.close()
        eventually(lambda: served(running.use()))


def served(found: tuple[socket.socket, dict[str, object]]) -> bool:
    found[0].close()
    return "port" in found[1]


def test_it_ends_with_its_jvm_and_with_its_files(tmp_path: Path) -> None:
    with kept(tmp_path / "one") as running:
        running.door.alive = False
        running.thread.join(30)
        assert not running.thread.is_alive()
        assert not running.keeper.place.kept.exists()
    with kept(tmp_path / "other") as running:
        running.keeper.place.kept.unlink()
        running.thread.join(30)
        assert not running.thread.is_alive()


def test_only_the_owner_may_read_where_it_is_and_only_such_a_file_is_believed(
    tmp_path: Path,
) -> None:
    with kept(tmp_path) as running:
        place = running.keeper.place
        assert (place.folder.stat().st_mode & 0o777, place.kept.stat().st_mode & 0o777) == (
            0o700,
            0o600,
        )
        assert read_kept(place) == running.kept
        for path, mode in ((place.kept, 0o640), (place.folder, 0o770)):
            before = path.stat().st_mode
            path.chmod(mode)
            assert read_kept(place) is None
            path.chmod(before)
        assert read_kept(place) is not None


def attached(folder: Path, wanted: dict[str, str] = TRAITS) -> tuple[object, list[Diagnostic]]:
    notes: list[Diagnostic] = []
    found = attach(folder, lambda: wanted, "python", notes.append)
    if found is not None:
        found.stop()
    return found, notes


def test_one_that_fits_is_used_and_one_that_does_not_is_left_to_its_users(tmp_path: Path) -> None:
    assert attached(tmp_path) == (None, [])
    with kept(tmp_path) as running:
        found, notes = attached(tmp_path)
        assert found is not None
        assert notes == []
        unlike = {**TRAITS, "memory": "4g"}
        line, _ = running.use()
        with line:
            found, (said,) = attached(tmp_path, unlike)
        assert found is None
        assert said.what == "the resident engine is not used: its memory is 2g, not 4g"
        assert "`odfbuild engine stop`, then `odfbuild engine start`" in said.fix
        assert len(running.door.lent) == 2
        assert running.keeper.place.kept.exists()


@pytest.mark.parametrize("differing", ["memory", "master", "host"])
def test_one_that_does_not_fit_gives_way_if_nobody_uses_it(differing: str, tmp_path: Path) -> None:
    """It would keep executors of a cluster; one on another master is that of another target."""
    with kept(tmp_path) as running:
        found, (said,) = attached(tmp_path, {**TRAITS, differing: "another"})
        assert found is None
        if differing == "memory":
            assert said.what == "the resident engine was stopped: its memory is 2g, not another"
            running.thread.join(30)
            assert not running.thread.is_alive()
        else:
            assert "is not used: its" in said.what
            assert attached(tmp_path)[0] is not None


def test_one_that_does_not_answer_or_refuses_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "_PATIENCE", 0.3)
    with kept(tmp_path) as running, socket.create_server(("127.0.0.1", 0)) as silent:
        place = running.keeper.place
        there = running.kept
        place.kept.write_text(replace(there, port=silent.getsockname()[1]).text())
        found, notes = attached(tmp_path)
        assert found is None
        assert notes[0].what == "the resident engine is not used: it does not answer (TimeoutError)"
        assert "`odfbuild engine status`" in notes[0].fix
        place.kept.write_text(there.text())
        monkeypatch.setattr("odfbuild.executors.engine.spark.jvm.keeper._MOST", 0)
        found, (said,) = attached(tmp_path)
        assert found is None
        assert "the resident engine is not used: it is full" in said.what


def test_what_a_killed_one_left_is_not_believed(tmp_path: Path) -> None:
    with kept(tmp_path) as running:
        text = running.kept.text()
    place = ResidentFolder(tmp_path)
    place.kept.touch(0o600)
    place.kept.write_text(text)
    assert read_kept(place) is not None
    assert not place.is_alive()
    assert attached(tmp_path) == (None, [])


def test_who_finds_no_word_of_a_keeper_looks_for_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ResidentFolder(tmp_path)
    place.make()
    assert place.silence() == "it printed nothing"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    assert place.silence() == f"the disk of {place.folder} is full"


def test_what_differs_is_said_in_words() -> None:
    there = {"memory": "2g", "java": "17"}
    assert differences(there, there) == ()
    assert differences(there, {"memory": "2g", "java": "21", "engine": "4"}) == (
        "java is 17, not 21",
        "engine is unknown, not 4",
    )


def test_nothing_of_the_secret_is_in_what_it_tells(tmp_path: Path) -> None:
    with kept(tmp_path) as running:
        line, said = ask(running.kept, {"ask": "status"})
        line.close()
        assert running.keeper.secret not in json.dumps(said)
        assert running.keeper.secret not in json.dumps(dict(running.kept.traits))
