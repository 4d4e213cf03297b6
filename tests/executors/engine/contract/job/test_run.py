"""Runs of jobs, in a folder and in two object stores: one answer, whole, however often asked."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.contract.job import Answer, JobRequest, read_answer
from odfbuild.executors.engine.contract.job.place import FolderPlace, Place, place_of
from odfbuild.executors.engine.contract.job.run import AnsweredJobError, RanJob, run_job
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.messages import METHODS, EngineOperations, Operations
from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import BadJobError, job_file
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.messages import RawQueryResponseInternalError, RawQueryResponseSuccess
from odfbuild.state.files.disk import Disk
from tests.executors.engine.contract.job.jobs import QUERY, RESULT, raw_query, rows_of
from tests.support.projects import odfbuild

PLACES = ("folder", "running_store", "simulated_store", "azure_store", "google_store")


def carried_out(operations: Operations, request: JobRequest) -> Answer:
    answer: Answer = METHODS[request.operation].run(operations, request.message)
    return answer


class Job:
    """A job in one of the places, its files also in a folder here."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder
        self.starts = 0

    def write(self, query: str = QUERY) -> bytes:
        document = raw_query(self.folder, query)
        if isinstance(self.place, BucketPlace):
            path = self.folder / "rows.parquet"
            self.place.upload(path, job_file(path, path.name))
        self.place.replace("request.json", document)
        return document

    def carried_out(self, request: JobRequest) -> Answer:
        self.starts += 1
        return carried_out(self.operations(), request)

    def operations(self) -> EngineOperations:
        return EngineOperations(DataFusionEngine(), self.folder.parent)

    def delete(self, name: str) -> None:
        if isinstance(self.place, BucketPlace):
            self.place._bucket.delete(name)
        else:
            (self.folder / name).unlink()

    def run(self) -> RanJob:
        return run_job(self.place, "request.json", self.carried_out)

    def made(self, ran: RanJob, tmp_path: Path) -> list[Any]:
        (file,) = ran.answer.files
        (tmp_path / "fetched").mkdir(exist_ok=True)
        path = self.place.made(file, tmp_path / "fetched")
        rows = list(rows_of(path))
        path.unlink()
        return rows


@pytest.fixture(params=PLACES)
def job(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Job]:
    folder = tmp_path / "job"
    folder.mkdir()
    if request.param == "folder":
        yield Job(FolderPlace(folder), folder)
        return
    server = request.getfixturevalue(request.param)
    for name, value in server.credentials.items():
        monkeypatch.setenv(name, value)
    yield Job(BucketPlace(server.url(f"jobs/{request.node.name}")), folder)


def test_a_job_is_done_once_and_its_answer_stays(job: Job, tmp_path: Path) -> None:
    document = job.write()
    first, second = job.run(), job.run()
    assert (first.is_old, second.is_old, job.starts) == (False, True, 1)
    assert first.answer == second.answer
    assert first.answer.request == sha3_256(document)
    assert first.answer.engine is not None
    assert first.answer.value == RawQueryResponseSuccess(3)
    assert job.made(first, tmp_path) == RESULT


def test_a_file_that_was_fetched_stays_as_it_was_hashed(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    job = Job(FolderPlace(folder), folder)
    job.write()
    (file,) = job.run().answer.files
    (tmp_path / "fetched").mkdir()
    path = job.place.made(file, tmp_path / "fetched")
    with (folder / file.stored).open("r+b") as changed:
        changed.write(b"?" * 8)
    assert list(rows_of(path)) == RESULT


def test_an_error_in_a_request_names_its_document(job: Job) -> None:
    document = json.loads(job.write())
    del document["request"]["newDataPath" if "newDataPath" in document["request"] else "transform"]
    job.place.replace("request.json", json.dumps(document).encode())
    with pytest.raises(BadJobError) as caught:
        job.run()
    assert job.place.shown("request.json") in caught.value.what


ERRORS = [
    (errno.ENOSPC, "free some space of that disk"),
    (errno.EACCES, "let this user write there"),
    (errno.EROFS, "let this user write there"),
]


@pytest.mark.parametrize(("number", "fix"), ERRORS, ids=["full", "not permitted", "read-only"])
@pytest.mark.parametrize("call", ["write", "rename", "sync", "mkdir"])
def test_a_disk_that_cannot_be_written_is_an_error_that_names_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, fix: str
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    job = Job(FolderPlace(folder), folder)
    job.write()
    before = {each.name for each in folder.iterdir()}

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(Path if call == "mkdir" else Disk, call, refused)
        with pytest.raises(BadJobError) as caught:
            job.run()
    assert f"{folder}" in caught.value.what
    assert os.strerror(number) in caught.value.what
    assert caught.value.fix.startswith(fix)
    left = {each.name for each in folder.iterdir()} - before
    assert not any(name.startswith(".") or name.endswith(".json") for name in left)
    assert job.made(job.run(), tmp_path) == RESULT


@pytest.mark.parametrize("removed", ["all of it", "what the step wrote", "the request"])
def test_a_folder_that_others_remove_meanwhile_is_named_as_such(
    tmp_path: Path, removed: str
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    job = Job(FolderPlace(folder), folder)
    job.write()

    def carry(request: JobRequest) -> Answer:
        answer = job.carried_out(request)
        if removed == "the request":
            (folder / "request.json").unlink()
        for each in [folder] if removed == "all of it" else folder.glob(".step-*"):
            if removed != "the request":
                shutil.rmtree(each)
        return answer

    if removed == "the request":
        assert job.made(run_job(job.place, "request.json", carry), tmp_path) == RESULT
        return
    with pytest.raises(BadJobError) as caught:
        run_job(job.place, "request.json", carry)
    assert "No such file or directory" in caught.value.what
    assert "removed the folder of the job" in caught.value.why
    assert "space" not in caught.value.fix
    assert "write the job again" in caught.value.fix
    assert not (folder / "request.answer.json").exists()


def test_a_file_that_went_is_made_again(job: Job, tmp_path: Path) -> None:
    job.write()
    (file,) = job.run().answer.files
    job.delete(file.stored)
    again = job.run()
    assert again.answer.files == (file,)
    assert job.made(again, tmp_path) == RESULT


@pytest.mark.holds("engine-jobs")
def test_an_answer_to_another_request_is_neither_taken_nor_replaced(job: Job) -> None:
    job.write()
    job.run()
    before = job.place.get("request.answer.json")
    job.write("select k, v from input")
    with pytest.raises(AnsweredJobError):
        job.run()
    assert job.place.get("request.answer.json") == before


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * 100])
def test_a_damaged_answer_is_not_taken(job: Job, damage: bytes) -> None:
    job.write()
    job.place.replace("request.answer.json", damage)
    with pytest.raises(AnsweredJobError):
        job.run()


@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize("change", ["other bytes", "as many bytes", "nothing"])
def test_other_rows_than_the_request_names_are_no_step(job: Job, change: str) -> None:
    job.write()
    path = job.folder / "rows.parquet"
    data = path.read_bytes()
    path.write_bytes(data + b"x" if change == "other bytes" else bytes([data[0] ^ 1]) + data[1:])
    if isinstance(job.place, BucketPlace):
        job.place.upload(path, job_file(path, path.name))
    if change == "nothing":
        job.delete("rows.parquet")
    with pytest.raises(BadJobError):
        job.run()
    assert job.place.get("request.answer.json") is None


def test_a_wrong_query_is_an_answer(job: Job) -> None:
    job.write("select nothing from input")
    first, second = job.run(), job.run()
    assert "nothing" in first.answer.value.message  # type: ignore[union-attr]
    assert (second.is_old, first.answer.files) == (True, ())


def test_after_a_failure_of_the_engine_the_next_run_tries_again(job: Job, tmp_path: Path) -> None:
    job.write()

    class Failing(EngineOperations):
        def raw_query(self, _: object) -> RawQueryResponseInternalError:
            return RawQueryResponseInternalError("out of memory")

    failing = Failing(DataFusionEngine(), tmp_path)
    failed = run_job(job.place, "request.json", partial(carried_out, failing))
    assert not failed.answer.is_final
    done = job.run()
    assert job.made(done, tmp_path) == RESULT
    kept = job.place.get("request.answer.json")
    assert kept is not None
    assert read_answer(kept, "ExecuteRawQuery", {"made.parquet"}) == done.answer


def test_runs_at_the_same_time_end_with_one_answer(job: Job, tmp_path: Path) -> None:
    job.write()
    ready, found = threading.Barrier(4), list[RanJob]()

    def carry(request: JobRequest) -> Answer:
        ready.wait(60)
        return carried_out(job.operations(), request)

    def run() -> None:
        found.append(run_job(job.place, "request.json", carry))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 4
    assert len({each.answer.files for each in found}) == 1
    assert job.made(found[0], tmp_path) == RESULT


def test_a_run_that_breaks_off_anywhere_leaves_no_answer_or_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that changes the place fails once; what is left is nothing, or all of it."""

    class Broken(Exception):
        pass

    number, made = 0, False
    while not made:
        folder = tmp_path / str(number)
        folder.mkdir()
        job = Job(FolderPlace(folder), folder)
        job.write()
        left = [number]

        def counting(call: Callable[..., Any], left: list[int] = left) -> Callable[..., Any]:
            def counted(*given: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise Broken
                return call(*given)

            return counted

        place: Any = job.place
        disk = place._disk
        with monkeypatch.context() as patch:
            for name in ("write", "link", "rename", "sync", "remove"):
                patch.setattr(disk, name, counting(getattr(disk, name)), raising=True)
            try:
                job.run()
                made = True
            except Broken:
                pass
        document = place.get("request.answer.json")
        if document is not None:
            answer = read_answer(document, "ExecuteRawQuery", {"made.parquet"})
            assert all(map(place.has, answer.files))
        assert job.made(job.run(), tmp_path) == RESULT
        number += 1
    assert number > 6


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_bytes(raw_query(tmp_path))
    command = [sys.executable, "-m", "odfbuild", "step", "run", str(tmp_path / "request.json")]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(2)
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout.startswith("ExecuteRawQuery is answered: 1 file,")
    assert second.stdout.startswith("ExecuteRawQuery was answered earlier: 1 file,")
    answer = json.loads((tmp_path / "request.answer.json").read_bytes())
    assert rows_of(tmp_path / answer["files"][0]["hash"]) == RESULT
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        ["request.json", "request.answer.json", "rows.parquet", answer["files"][0]["hash"]]
    )


ENDLESS = "select sum(i0.v) as s from " + " cross join ".join(f"input i{n}" for n in range(24))


def endless(folder: Path, limit: float) -> "subprocess.Popen[str]":
    """Start a job whose query does not end within days."""
    (folder / "request.json").write_bytes(raw_query(folder, ENDLESS, limit=limit))
    command = [sys.executable, "-m", "odfbuild", "step", "run", str(folder / "request.json")]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def worker_of(job: "subprocess.Popen[str]") -> int:
    """Return the process that carries out a step, once it runs."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        if found and b"elsewhere.worker" in Path(f"/proc/{found[0]}/cmdline").read_bytes():
            return int(found[0])
        time.sleep(0.02)
    raise AssertionError("no process was started")


def has_gone(process: int) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.holds("engine-jobs")
def test_a_step_that_takes_too_long_is_ended_and_answered(tmp_path: Path) -> None:
    start = time.monotonic()
    job = endless(tmp_path, limit=4)
    worker = worker_of(job)
    _, printed = job.communicate(timeout=60)
    assert time.monotonic() - start > 4
    assert job.returncode == 1
    assert "error[engine-failed]" in printed
    assert "the step ran for 4 s, the limit of its request, and was ended" in printed
    assert printed.startswith("error[")
    assert len(printed.splitlines()) == 3
    assert has_gone(worker)
    data = (tmp_path / "request.answer.json").read_bytes()
    assert not read_answer(data, "ExecuteRawQuery", {"made.parquet"}).is_final
    left = {"request.json", "request.answer.json", "rows.parquet"}
    assert {each.name for each in tmp_path.iterdir()} == left


def test_a_step_whose_process_was_killed_is_answered(tmp_path: Path) -> None:
    """As the system does when memory runs out."""
    job = endless(tmp_path, limit=600)
    os.kill(worker_of(job), signal.SIGKILL)
    _, printed = job.communicate(timeout=60)
    assert job.returncode == 1
    assert "the process that ran the query ended without an answer" in printed
    assert "give the job more memory" in printed
    data = (tmp_path / "request.answer.json").read_bytes()
    assert not read_answer(data, "ExecuteRawQuery", {"made.parquet"}).is_final


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("seconds", [0, 0.1, 5], ids=["at once", "starting", "running"])
def test_the_process_of_a_step_ends_with_its_job(
    tmp_path: Path, sent: signal.Signals, seconds: float
) -> None:
    job = endless(tmp_path, limit=600)
    worker = worker_of(job)
    time.sleep(seconds)
    job.send_signal(sent)
    _, printed = job.communicate(timeout=60)
    assert "Traceback" not in printed
    assert has_gone(worker)
    assert not (tmp_path / "request.answer.json").exists()


@pytest.mark.parametrize(
    ("query", "code"), [("select nothing from input", "invalid-query"), (QUERY, "bad-job")]
)
def test_the_command_ends_with_what_went_wrong(tmp_path: Path, query: str, code: str) -> None:
    document = raw_query(tmp_path, query)
    (tmp_path / "request.json").write_bytes(document if code != "bad-job" else document[:-5])
    command = [sys.executable, "-m", "odfbuild", "step", "run", str(tmp_path / "request.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert code in done.stderr
    assert "Traceback" not in done.stderr


def test_a_request_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OdfBuildError, match="does not exist"):
        run_job(FolderPlace(tmp_path), "request.json", lambda _: pytest.fail("nothing to do"))


@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize("linked", ["request.json", "request.answer.json", "rows.parquet"])
def test_links_are_not_followed(tmp_path: Path, linked: str) -> None:
    folder, elsewhere = tmp_path / "job", tmp_path / "elsewhere"
    folder.mkdir()
    job = Job(FolderPlace(folder), folder)
    job.write()
    if linked == "request.answer.json":
        job.run()
    (folder / linked).rename(elsewhere)
    (folder / linked).symlink_to(elsewhere)
    with pytest.raises(BadJobError, match="is a link"):
        job.run()


@pytest.mark.parametrize("url", ["s3://", "s3://bucket", "s3:///request.json", "s3+http://host/x"])
def test_an_address_without_a_bucket_or_a_name_is_refused(url: str) -> None:
    with pytest.raises(BadJobError, match="not the address of an object"):
        place_of(url)


@pytest.mark.parametrize(
    "command", [("step", "run", "x"), ("engine", "serve", "--read=.", "--write=.")]
)
@pytest.mark.parametrize("memory", ["zz", "2", "-1g", "0m", "2 g", ""])
def test_a_heap_that_java_does_not_take_is_refused(
    command: tuple[str, ...], memory: str, tmp_path: Path
) -> None:
    done = odfbuild(*command, f"--memory={memory}", cwd=tmp_path)
    assert done.code == 64
    assert f"--memory {memory}: not an amount of memory" in done.err
