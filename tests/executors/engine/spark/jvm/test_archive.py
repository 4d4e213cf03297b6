"""Class archives: where they are, when they are used, and that only one process makes one."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.jvm import archive as module
from odfbuild.executors.engine.spark.jvm.archive import (
    Train,
    archive_of,
    build,
    build_later,
    options,
)
from odfbuild.executors.engine.spark.jvm.java import Java

SEVENTEEN = Java(Path("/java/bin/java"), Path("/java"), 17, "17.0.15", "Somebody")
LATEST = Java(Path("/java/bin/java"), Path("/java"), 25, "25.0.2", "Somebody")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ODFBUILD_CLASS_ARCHIVE", "auto")


def make(java: Java = SEVENTEEN) -> Path:
    path = archive_of(java).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def writes(into_place: bool, seen: list[tuple[str, ...]]) -> Train:
    """Return a stand-in for the training run, which writes what Java would write at its end."""

    def train(folder: Path, java_options: Sequence[str]) -> None:
        seen.append(tuple(java_options))
        if into_place:
            (folder / "classes").write_bytes(b"archive")

    return train


def test_an_archive_is_bound_to_java_and_its_options(tmp_path: Path) -> None:
    other = Java(SEVENTEEN.program, SEVENTEEN.home, 17, "17.0.16", "Somebody")
    paths = {archive_of(java).path for java in (SEVENTEEN, LATEST, other)}
    assert len(paths) == 3
    assert all(path.parent == tmp_path / "odfbuild" / "classes" for path in paths)


def test_an_archive_that_is_there_is_used() -> None:
    assert options(SEVENTEEN) == []
    path = make()
    assert any(each.endswith(str(path)) for each in options(SEVENTEEN))
    assert options(LATEST) == []
    assert options(LATEST) == [] != [f"-XX:AOTCache={make(LATEST)}"] == options(LATEST)


def test_off_means_off(monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    monkeypatch.setenv("ODFBUILD_CLASS_ARCHIVE", "off")
    assert options(SEVENTEEN) == []


def test_a_java_without_base_archive_gets_one_of_ours() -> None:
    archive = archive_of(SEVENTEEN)
    assert archive.base is not None
    assert f"{archive.base}{os.pathsep}{archive.path}" in archive.use[0]
    assert archive_of(LATEST).base is None


def test_building_leaves_a_whole_archive_or_none() -> None:
    seen: list[tuple[str, ...]] = []
    archive = archive_of(LATEST)
    build(archive, writes(True, seen))
    assert archive.path.read_bytes() == b"archive"
    assert seen[0][0].startswith("-XX:AOTCacheOutput=")
    assert str(archive.path) not in seen[0][0]
    build(archive, writes(True, seen))
    assert len(seen) == 1


def test_a_build_in_vain_is_remembered() -> None:
    archive = archive_of(LATEST)
    with pytest.raises(EngineFailedError, match="no class archive was made"):
        build(archive, writes(False, []))
    assert archive.has_failed
    assert not archive.is_there


def test_a_second_builder_leaves_it_to_the_first() -> None:
    seen: list[tuple[str, ...]] = []
    archive = archive_of(LATEST)
    with module._lock(archive) as locked:
        assert locked
        build(archive, writes(True, seen))
    assert seen == []


@pytest.mark.parametrize("why", ["off", "there", "failed", "being made"])
def test_no_builder_is_started_when_none_is_wanted(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **_: started.append(given))
    archive = archive_of(LATEST)
    notes: list[str] = []
    if why == "off":
        monkeypatch.setenv("ODFBUILD_CLASS_ARCHIVE", "off")
    elif why == "there":
        make(LATEST)
    elif why == "failed":
        make(LATEST).rename(archive.path.with_suffix(".failed"))
    if why == "being made":
        with module._lock(archive):
            build_later(LATEST, notes.append)
    else:
        build_later(LATEST, notes.append)
    assert (started, notes) == ([], [])


def test_the_builder_is_started_once_spark_was_used_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    notes: list[str] = []
    build_later(LATEST, notes.append)
    assert list(started[0][1:]) == ["-P", "-m", "odfbuild.executors.engine.spark.training"]
    assert "200 MB" in notes[0]
    assert "ODFBUILD_CLASS_ARCHIVE=off" in notes[0]


def test_a_build_that_is_waited_for_is_a_process_and_its_last_words_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {
        "it ended with 1": "sys.exit(1)",
        "no room: the disk is full": r"sys.exit('WARN\nno room: the disk is full\n')",
        "it ended with -9": "os.kill(os.getpid(), 9)",
    }
    monkeypatch.setenv("ODFBUILD_CLASS_ARCHIVE", "build")
    begun = "import os, sys; assert os.environ['ODFBUILD_CLASS_ARCHIVE'] == 'off'; "
    monkeypatch.setattr(module, "_COMMAND", (sys.executable, "-c", begun))
    assert options(LATEST) == []
    for why, end in answers.items():
        monkeypatch.setattr(module, "_COMMAND", (sys.executable, "-c", begun + end))
        with pytest.raises(EngineFailedError, match="no class archive was made") as raised:
            options(LATEST)
        assert raised.value.why == why
    make(LATEST)
    assert options(LATEST)


def test_only_a_few_archives_are_kept() -> None:
    folder = make().parent
    for at in range(5):
        path = folder / f"java17-{at}.jsa"
        path.touch()
        os.utime(path, (at, at))
    build(archive_of(LATEST), writes(True, []))
    kept = {path.name for path in folder.glob("*.jsa")}
    assert kept == {archive_of(LATEST).path.name, archive_of(SEVENTEEN).path.name, "java17-4.jsa"}


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022])
def test_what_is_kept_is_for_its_owner_alone(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        build(archive_of(LATEST), writes(True, []))
    finally:
        os.umask(before)
    found = list((tmp_path / "odfbuild").rglob("*"))
    assert len(found) == 3
    for each in (tmp_path / "odfbuild", *found):
        assert not each.stat().st_mode & 0o077, each


@pytest.mark.parametrize("mode", [0o602, 0o620])
def test_an_archive_that_others_may_have_written_is_not_used(mode: int) -> None:
    path = make(LATEST)
    assert options(LATEST)
    path.chmod(mode)
    assert options(LATEST) == []
