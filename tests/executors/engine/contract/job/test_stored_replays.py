"""Placed replays of a workspace in a store: jobs get copies of objects, and check their bytes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.executors.engine.contract.job.test_steps import QUERIES, TAGS, Sales
from tests.support.projects import Done
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import ObjectServer

REPLAYED = ("verify", "totals", "--replay", "--placed", "-j", "1", "-o", "json")
SHARED = "/jobs/files/"


@dataclass(frozen=True)
class Stored:
    """A project whose workspace and jobs are in one store, its requests counted."""

    project: Sales
    store: ObjectServer
    proxy: ObjectProxy
    name: str

    def __call__(self, *arguments: str) -> Done:
        folder = self.project.folder.parent
        homes = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "STATE")}
        self.proxy.moved.clear()
        return self.project(*arguments, **homes)

    @property
    def workspace(self) -> Any:
        return self.store.store(f"{self.name}/workspace")

    def slices(self, name: str) -> dict[str, str]:
        """Return the objects of the slices of a dataset, by hash: only `totals` has a column n."""
        found = {}
        for path in [each["path"] for page in self.workspace.list() for each in page]:
            if "/data/" in path:
                data = pa.BufferReader(bytes(self.workspace.get(path).bytes()))
                if ("n" in pq.read_schema(data).names) == (name == "totals"):
                    found[path.rpartition("/")[2]] = path
        assert len(found) == 2
        return found

    def forget(self) -> None:
        """Take away what earlier jobs left."""
        jobs = self.store.store(f"{self.name}/jobs")
        for path in [each["path"] for page in jobs.list() for each in page]:
            jobs.delete(path)

    def given(self) -> dict[str, int]:
        """Return by hash how many bytes were sent of each file that jobs share."""
        return {
            path.rpartition("/")[2]: size
            for method, path, size, _ in self.proxy.moved
            if method == "PUT" and SHARED in path
        }


@contextmanager
def altering(proxy: ObjectProxy, alter: Any) -> Iterator[list[str]]:
    """Yield the paths of files that jobs share; `alter` is called before the first is written."""
    seen: list[str] = []

    def before(method: str, path: str) -> None:
        if method == "PUT" and SHARED in path:
            if not seen:
                alter()
            seen.append(path)

    proxy.before = before
    try:
        yield seen
    finally:
        proxy.before = lambda *_: None


@pytest.fixture
def stored(
    tmp_path: Path, running_store: ObjectServer, request: pytest.FixtureRequest
) -> Iterator[Stored]:
    """Yield a project that grew twice, of which no job has a file."""
    name = request.node.name.replace(" ", "-").replace("[", "-").replace("]", "")
    with proxying(running_store.port) as proxy:
        counted = ObjectServer(proxy.port)
        objects = f", objects: '{counted.url(f'{name}/jobs')}'"
        project = Sales(tmp_path / "project", "{tags: [big]}", more=objects)
        for each in QUERIES.keys() - {"totals"}:
            (project.folder / "datasets" / f"{each}.yaml").unlink()
        settings = project.folder / "odfbuild.yaml"
        text = settings.read_text().replace(TAGS, "defaults: {totals: {tags: [big]}}")
        workspace = f"dev: {{workspace: '{counted.url(f'{name}/workspace')}'}}"
        settings.write_text(text.replace("dev: {}", workspace))
        made = Stored(project, running_store, proxy, name)
        for _ in range(2):
            project.grow()
            done = made("apply", "--yes")
            assert done.code == 0, done.err
        made.forget()
        yield made


def test_no_slice_is_sent_again(stored: Stored) -> None:
    sales, totals = stored.slices("sales"), stored.slices("totals")
    done = stored(*REPLAYED, "--recompute")
    assert done.code == 0, done.out
    (found,) = json.loads(done.out)["datasets"]
    assert {each["place"] for each in (*found["steps"], found["recomputed"])} == {"batch"}
    given = stored.given()
    assert {*sales} <= {*given} <= {*sales, *totals}
    assert {*given.values()} == {0}


@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize("when", ["before", "after the check"])
def test_bytes_that_were_altered_in_the_store_are_found(stored: Stored, when: str) -> None:
    slices = stored.slices("sales")

    def alter() -> None:
        for path in slices.values():
            data = bytes(stored.workspace.get(path).bytes())
            stored.workspace.put(path, data[:-1] + b"?")

    if when == "before":
        alter()
    with altering(stored.proxy, alter) as written:
        done = stored(*REPLAYED)
    assert done.code == 7
    (found,) = json.loads(done.out)["datasets"]
    said = [each["findings"] for each in found["steps"]]
    assert all(said), said
    if when == "before":
        assert all("hash to" in each[0] for each in said), said
        assert written == []
    else:
        assert "is not the file that the request names: its hash is another" in said[0][0], said
        assert written


def test_a_slice_that_the_store_loses_after_the_check_is_sent(stored: Stored) -> None:
    slices = stored.slices("sales")
    left = dict(slices)

    def lose(method: str, path: str) -> None:
        """Lose each slice when the job of a step that found it is about to be given it."""
        hash = path.rpartition("/")[2]
        if method == "PUT" and SHARED in path and hash in left:
            stored.workspace.delete(left.pop(hash))

    stored.proxy.before = lose
    done = stored(*REPLAYED)
    stored.proxy.before = lambda *_: None
    assert not left
    (found,) = json.loads(done.out)["datasets"]
    assert [each["findings"] for each in found["steps"]] == [[], []], found
    given = stored.given()
    assert all(given[each] for each in slices), given
