"""Leftovers of jobs in a store: which of them go, and that files in use stay."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import JobFile, job_file
from odfbuild.executors.engine.objects.leftovers import (
    RENEWED,
    FreedJobs,
    collect_jobs,
    kept_jobs,
    note_kept_job,
)
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.state.remote.client import StoredObject
from odfbuild.state.remote.errors import RefusedByRepositoryError
from tests.support.servers.memory_store import MemoryClient
from tests.support.servers.object_store import CREDENTIALS, ObjectServer

NOW = 1e9
DAY = 86_400.0
LIMIT = 3_600.0
LEAST = RENEWED + LIMIT


def hash_of(number: int) -> Multihash:
    return sha3_256(bytes([number]))


ages = st.floats(0, 30 * DAY)
jobs = st.dictionaries(
    st.integers(0, 3), st.dictionaries(st.sampled_from("abc"), ages, min_size=1), max_size=4
)
OTHERS = (
    "files/notes.txt",
    f"files/{hash_of(0)}/x",
    f"other/files/{hash_of(0)}",
    "engine-abc/request.json",
    "engine-a-0123456789abcdef/deeper/request.json",
    "request.json",
)


@given(
    files=st.dictionaries(st.integers(0, 20), ages, max_size=8),
    jobs=jobs,
    age=st.one_of(st.just(0.0), st.floats(0, 20 * DAY)),
)
def test_exactly_old_files_and_jobs_of_which_nothing_is_young_go(
    files: dict[int, float], jobs: dict[int, dict[str, float]], age: float
) -> None:
    def prefix(number: int) -> str:
        return f"engine-x{number}_y-{number:016x}"

    old = max(age, LEAST)
    there = {f"files/{hash_of(number)}": each for number, each in files.items()}
    gone = {key for key, each in there.items() if each > old}
    for number, parts in jobs.items():
        whole = {f"{prefix(number)}/{name}": each for name, each in parts.items()}
        there |= whole
        gone |= whole.keys() if min(whole.values()) > old else set()
    there |= dict.fromkeys(OTHERS, 100 * DAY)
    client = MemoryClient({key: (b"data", NOW - each) for key, each in there.items()})
    expected = FreedJobs(place=client.place, files=len(gone), bytes=4 * len(gone))
    found = collect_jobs(client, age=age, limit=LIMIT, dry_run=True, clock=lambda: NOW)
    assert (found, {*client.objects}) == (expected, {*there})
    found = collect_jobs(client, age=age, limit=LIMIT, clock=lambda: NOW)
    assert (found, {*client.objects}) == (expected, {*there} - gone)


@pytest.mark.parametrize("ahead", [-DAY, 0.0, DAY], ids=["behind", "right", "ahead"])
def test_a_file_is_old_by_the_clock_of_the_store_and_by_that_of_this_machine(ahead: float) -> None:
    there = time.time() + ahead

    def left(age: float) -> bool:
        client = MemoryClient({f"files/{hash_of(1)}": (b"data", there - age)}, clock=lambda: there)
        found = collect_jobs(client, age=0, limit=LIMIT)
        assert found.problem is None
        assert len(client.objects) == 1 - found.files
        return bool(client.objects)

    assert left(LEAST - DAY / 2)
    assert left(LEAST + max(0.0, ahead) - DAY / 2)
    assert not left(LEAST + max(0.0, ahead) + DAY / 2)


def test_a_place_of_which_nothing_is_listed_is_not_written_to() -> None:
    client = MemoryClient()
    assert collect_jobs(client, age=0, limit=LIMIT) == FreedJobs(place=client.place)
    assert {method for method, _ in client.asked} == {"LIST"}


@pytest.mark.parametrize("written", [NOW, -DAY], ids=["now", "by a clock that was set back"])
def test_a_file_that_is_written_again_meanwhile_stays(written: float) -> None:
    key = f"files/{hash_of(1)}"

    class Renewing(MemoryClient):
        def facts(self, key: str) -> StoredObject | None:
            self.objects[key] = b"data", written
            return super().facts(key)

    client = Renewing({key: (b"data", 0.0)})
    collect_jobs(client, age=0, limit=LIMIT, clock=lambda: NOW)
    assert key in client.objects


def test_a_store_that_refuses_to_delete_is_a_problem_and_no_error() -> None:
    class Refusing(MemoryClient):
        def delete(self, key: str) -> None:
            raise RefusedByRepositoryError(what=f"{key}: AccessDenied", why="", fix="")

    client = Refusing({f"files/{hash_of(1)}": (b"data", 0.0)})
    found = collect_jobs(client, age=0, limit=LIMIT, clock=lambda: NOW)
    assert (found.files, found.bytes) == (0, 0)
    assert "AccessDenied" in (found.problem or "")


def test_jobs_that_stay_are_said_once_for_each_place() -> None:
    kept_jobs()
    for number in range(3):
        note_kept_job("s3://a/jobs", f"AccessDenied {number}")
    note_kept_job("s3://b/jobs", "AccessDenied")
    found = kept_jobs()
    assert [each.code for each in found] == ["jobs-kept"] * 2
    assert "s3://a/jobs were not deleted: AccessDenied 0" in found[0].what
    assert kept_jobs() == ()


@pytest.mark.parametrize("store", ["running_store", "simulated_store"], indirect=True)
def test_an_old_file_is_renewed_by_the_store_before_a_job_reads_it(
    tmp_path: Path,
    store: ObjectServer,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, each in CREDENTIALS.items():
        monkeypatch.setenv(name, each)
    prefix = f"renewed/{request.node.name}"
    path = tmp_path / "file"
    path.write_bytes(b"rows of a slice")
    written = job_file(path, "file")
    file = JobFile(str(written.hash), written.size, written.hash, shared=True)
    job = BucketPlace(f"{store.url(prefix)}engine-a-0123456789abcdef/")
    job.upload(path, file)
    path.unlink()
    there = store.store(prefix)
    before = there.head(f"files/{file.stored}")["last_modified"]
    job.upload(path, file)
    assert there.head(f"files/{file.stored}")["last_modified"] == before
    time.sleep(1.1)  # times of objects are whole seconds
    later = BucketPlace(job.shown(""), clock=lambda: time.time() + RENEWED + 1)
    later.upload(path, file)
    assert there.head(f"files/{file.stored}")["last_modified"] > before
    assert bytes(there.get(f"files/{file.stored}").bytes()) == b"rows of a slice"
    assert [e["path"] for page in there.list() for e in page] == [f"files/{file.stored}"]
