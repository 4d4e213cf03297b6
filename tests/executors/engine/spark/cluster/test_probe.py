"""Probes of executors: judged by what they say, and by what is seen here of what they wrote."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.cluster import probe
from odfbuild.executors.engine.spark.cluster.connect.task_probe import Looking, read_report
from odfbuild.executors.engine.spark.cluster.package_archive import package_archive
from odfbuild.executors.engine.spark.cluster.probe import (
    ClusterFolderError,
    ClusterMismatchError,
    ProbeFolder,
    Report,
    Versions,
    check_reports,
    own_versions,
    probe_failure,
    probe_folder,
    report,
)
from odfbuild.executors.engine.spark.cluster.shared_files import seen_parts

ARCHIVE = "odfbuild-0.zip"
MASTER = "spark://h:7077"
HERE = own_versions(spark="4.3.0", java="17")
ROW = {"host": "10.0.0.3", "spark": "4.3.0", "java": "17", "zone": "UTC", "encoding": "UTF-8"}


def of_executor(folder: ProbeFolder, **unlike: Any) -> Report:
    """Return the report of a task that ran here, but for some of its versions."""
    found = report(folder, ROW)
    return replace(found, versions=replace(found.versions, package=ARCHIVE, **unlike))


def test_an_executor_like_this_process_that_shares_the_folder_is_admitted(tmp_path: Path) -> None:
    with probe_folder(tmp_path) as folder:
        check_reports([of_executor(folder), of_executor(folder)], HERE, folder, ARCHIVE, MASTER)
        assert folder.path.is_dir()
    assert list(tmp_path.rglob("*")) == [tmp_path / "spark"]


def test_what_a_task_on_a_server_reports_comes_back_as_text(tmp_path: Path) -> None:
    with probe_folder(tmp_path) as folder:
        there = ROW | {"java": "21"}
        (batch,) = Looking(folder)(iter([pa.RecordBatch.from_pylist([ROW, there])]))
        one, two = map(read_report, batch.column("report").to_pylist())
        unseen = report(folder, ROW)
        assert one == replace(unseen, answer=one.answer)
        check_reports([one], HERE, folder, one.versions.package, MASTER)
        with pytest.raises(ClusterMismatchError) as caught:
            check_reports([one, two], HERE, folder, one.versions.package, MASTER)
        assert "Java 21, not 17" in caught.value.why


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[PYTHON_VERSION_MISMATCH] other version: 3.9 than that in driver: 3.11", "Python 3.9"),
        ('java.io.IOException: Cannot run program "/no/python"', "no program /no/python"),
        ("ModuleNotFoundError: No module named 'obstore'", "No module named 'obstore'"),
        ("java.io.InvalidClassException: org.apache.spark", "their Spark is not 4.3.0"),
    ],
)
def test_a_probe_that_did_not_run_tells_what_is_other_there(text: str, said: str) -> None:
    error = probe_failure(f"Job aborted: {text}", MASTER, "4.3.0", see="see the log")
    assert isinstance(error, ClusterMismatchError)
    assert said in error.why
    error = probe_failure("Job aborted\nno reason", MASTER, "4.3.0", see="see the log")
    assert (error.code, error.why, error.fix) == ("engine-failed", "Job aborted", "see the log")


@pytest.mark.parametrize(
    ("unlike", "said"),
    [
        ({"spark": "4.0.1"}, "10.0.0.3 has Spark 4.0.1, not 4.3.0"),
        ({"java": "21"}, "10.0.0.3 has Java 21, not 17"),
        ({"python": "3.9"}, "10.0.0.3 has Python 3.9, not"),
        ({"packages": {"pyarrow": "9.0.0"}}, "10.0.0.3 has pyarrow 9.0.0, not"),
        ({"packages": {"pyarrow": "none"}}, "10.0.0.3 has pyarrow none, not"),
        ({"zone": "Europe/Berlin"}, "has the time zone of Java Europe/Berlin, not UTC"),
        ({"encoding": "ISO-8859-1"}, "has the encoding of Java ISO-8859-1, not UTF-8"),
        ({"package": "/opt/theirs"}, f"has odfbuild from /opt/theirs, not from {ARCHIVE}"),
    ],
)
def test_an_executor_with_another_version_is_refused_by_its_name(
    tmp_path: Path, unlike: dict[str, Any], said: str
) -> None:
    with probe_folder(tmp_path) as folder:
        found = of_executor(folder)
        other = replace(found, versions=replace(found.versions, **unlike))
        with pytest.raises(ClusterMismatchError) as caught:
            check_reports([found, other, other], HERE, folder, ARCHIVE, MASTER)
    assert said in caught.value.why
    assert caught.value.why.count(said) == 1


def test_what_a_task_cannot_read_or_write_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with probe_folder(tmp_path) as folder:
        elsewhere = report(replace(folder, path=tmp_path / "not" / "mounted"), ROW)
        another = report(replace(folder, token="f" * 32), ROW)

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "write_text", refuse)
        closed = report(folder, ROW)
        for found, said in (
            (elsewhere, "no such file or directory"),
            (another, "is another file there"),
            (closed, "permission denied"),
        ):
            like = replace(found, versions=replace(found.versions, package=ARCHIVE))
            with pytest.raises(ClusterFolderError) as caught:
                check_reports([like], HERE, folder, ARCHIVE, MASTER)
            assert "10.0.0.3" in caught.value.what
            assert said in caught.value.why


def test_an_answer_that_is_not_seen_here_is_refused(tmp_path: Path) -> None:
    with probe_folder(tmp_path) as folder:
        one, two = of_executor(folder), of_executor(folder)
        (folder.path / one.answer).unlink()
        (folder.path / two.answer).write_text("of another machine", "ascii")
        with pytest.raises(ClusterFolderError, match="does not share"):
            check_reports([one], HERE, folder, ARCHIVE, MASTER)
        with pytest.raises(ClusterFolderError) as caught:
            check_reports([two], HERE, folder, ARCHIVE, MASTER)
        assert "another file here" in caught.value.why


def test_the_archive_of_the_package_is_the_same_each_time_and_is_imported_without_the_rest(
    tmp_path: Path,
) -> None:
    path = package_archive(tmp_path)
    assert package_archive(tmp_path / "again").read_bytes() == path.read_bytes()
    assert package_archive(tmp_path) == path
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == [path.name]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from odfbuild.executors.engine.spark.cluster import probe;"
        "print(probe.own_versions(spark='', java='').package);"
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'pyarrow', 'pyspark', 'yaml'}))"
    )
    run = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == [path.name, "[]"]


def test_rows_that_executors_wrote_and_that_are_not_seen_are_an_error(tmp_path: Path) -> None:
    for number in range(2):
        pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / f"part-{number}.parquet")
    assert len(seen_parts(tmp_path, 6)) == 2
    with pytest.raises(ClusterFolderError, match="wrote 9 rows, and 6 of them are visible here"):
        seen_parts(tmp_path, 9, patience=0.2)


def test_a_version_of_nothing_is_none() -> None:
    assert probe._version("no-such-distribution") == "none"
    assert isinstance(HERE, Versions)
