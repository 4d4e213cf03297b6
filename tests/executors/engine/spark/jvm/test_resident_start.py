"""Start of a resident engine where there is another: one that starts, ends, or was killed."""

import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odfbuild.app import engine
from odfbuild.app.engine import EngineState
from odfbuild.errors import Diagnostic
from odfbuild.executors.engine.spark.jvm import keeper, resident_start
from odfbuild.executors.engine.spark.jvm.attach import attach
from odfbuild.executors.engine.spark.jvm.resident import (
    ResidentFolder,
    host,
    is_gone,
    read_kept,
)
from odfbuild.executors.engine.spark.jvm.resident_start import Awaited
from tests.executors.engine.spark.jvm.test_keeper import attached, eventually, kept


@contextmanager
def starting(place: ResidentFolder) -> Iterator[None]:
    """Hold what a keeper holds that is not ready yet."""
    place.make()
    with place.life.open("wb") as life:
        fcntl.flock(life, fcntl.LOCK_EX)
        yield


def project_of(place: ResidentFolder) -> Any:
    return SimpleNamespace(workspace=SimpleNamespace(cache=place.cache))


def awaited(
    place: ResidentFolder, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Awaited, list[Diagnostic]]:
    """Start what takes the place of the keeper: a module with this text."""
    (folder / "odd_keeper.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(resident_start, "_KEEPER", "odd_keeper")
    notes: list[Diagnostic] = []
    there = Awaited(
        place=place,
        wanted={},
        traits=dict,
        python="python",
        note=notes.append,
        before=read_kept(place),
    )
    return there, notes


def test_one_that_starts_is_told_from_one_that_ends(tmp_path: Path) -> None:
    place = ResidentFolder(tmp_path)
    assert engine.resident(project_of(place)).state is EngineState.NONE
    with starting(place):
        assert engine.resident(project_of(place)).state is EngineState.STARTING
    with kept(tmp_path) as running:
        place.life.write_bytes(b"")  # as an earlier version leaves it
        assert not place.is_starting()
        place.life.write_bytes(b"ready")
        line, _ = running.use()
        with line:
            running.keeper.stop(now=False)
            assert engine.resident(project_of(place)).state is EngineState.STOPPING


def test_who_stops_one_that_starts_waits_until_it_has_started(tmp_path: Path) -> None:
    place = ResidentFolder(tmp_path)
    found: list[EngineState] = []
    stopping = threading.Thread(
        target=lambda: found.append(engine.stop(project_of(place)).state), daemon=True
    )
    with starting(place):
        stopping.start()
        stopping.join(1)
        assert stopping.is_alive(), "it says that one is stopped that is about to run"
    stopping.join(30)
    assert found == [EngineState.NONE]


def test_one_that_ends_with_its_users_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_start, "_ENDING", 0.5, raising=False)
    with kept(tmp_path / "cache") as running:
        line, _ = running.use()
        with line:
            running.keeper.stop(now=False)
            there, notes = awaited(running.keeper.place, "", tmp_path, monkeypatch)
            began = time.monotonic()
            assert there.attached(lambda: None) is None
            assert time.monotonic() - began < 60
    assert [each.what for each in notes] == ["the resident engine is not used: it is stopping"]


def test_what_a_killed_one_left_is_not_taken_for_the_one_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept(tmp_path / "cache") as running:
        text = running.kept.text()
    place = ResidentFolder(tmp_path / "cache")
    place.kept.touch(0o600)
    place.kept.write_text(text)
    late = "import time; time.sleep(2); raise SystemExit(1)"
    there, _ = awaited(place, late, tmp_path, monkeypatch)
    assert there.attached(lambda: None) is None
    assert there.keeper.returncode == 1


def test_what_one_left_before_the_machine_started_again_is_not_believed(tmp_path: Path) -> None:
    with kept(tmp_path) as running:
        before = replace(running.kept, host=f"{socket.gethostname()} another-start")
    place = ResidentFolder(tmp_path)
    place.kept.touch(0o600)
    place.kept.write_text(before.text())
    assert attached(tmp_path) == (None, [])
    assert engine.resident(project_of(place)).state is EngineState.NONE
    engine.stop(project_of(place))
    assert not place.kept.exists()


BOOT = host().partition(" ")[2]


@pytest.mark.parametrize(
    ("name", "age", "is_believed"),
    [
        (f"renamed {BOOT}", 0, False),
        ("elsewhere another-start", 0, True),
        ("elsewhere another-start", 240, True),
        ("elsewhere another-start", 600, False),
        ("elsewhere", 600, False),
    ],
)
def test_what_one_left_under_another_name_of_a_machine_is_believed_while_it_is_renewed(
    name: str, age: int, is_believed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept(tmp_path) as running:
        left = replace(running.kept, host=name, traits={"host": name})
    place = ResidentFolder(tmp_path)
    place.kept.touch(0o600)
    place.kept.write_text(left.text())
    os.utime(place.kept, (time.time() - age,) * 2)
    notes: list[Diagnostic] = []
    assert attach(place.cache, lambda: {"host": host()}, "python", notes.append) is None
    unfit = f"the resident engine is not used: its host is {name}, not {host()}"
    assert [each.what for each in notes] == [unfit] * is_believed
    state = engine.resident(project_of(place)).state
    assert state is (EngineState.UNFIT if is_believed else EngineState.NONE)
    engine.stop(project_of(place))
    assert place.kept.exists() is is_believed
    with starting(place):  # who holds the lock lives, whatever was renewed
        place.kept.touch(0o600)
        assert not is_gone(place, left)


def test_a_keeper_renews_what_it_wrote_and_ends_where_another_took_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "RENEWAL", 0.2)
    with kept(tmp_path) as running:
        place = running.keeper.place
        os.utime(place.kept, (1, 1))
        eventually(lambda: time.time() - place.kept.stat().st_mtime < 60)
        other = place.folder / "other"
        other.touch(0o600)
        other.write_text(replace(running.kept, host="elsewhere").text())
        other.rename(place.kept)
        running.thread.join(30)
        assert (running.thread.is_alive(), running.keeper.is_replaced) == (False, True)
    assert place.kept.exists()


def test_the_engine_of_another_user_is_as_none(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    with kept(tmp_path) as running:
        place, text = running.keeper.place, running.kept.text()
    notes: list[Diagnostic] = []
    with starting(place):  # all threads of a process change their user, a keeper's too
        place.kept.touch(0o600)
        place.kept.write_text(text)
        os.seteuid(65534)
        try:
            assert attach(place.cache, dict, "python", notes.append) is None
            assert engine.resident(project_of(place)).state is EngineState.NONE
        finally:
            os.seteuid(0)
        assert place.kept.exists()
    assert notes == []
