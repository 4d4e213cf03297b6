"""Where Spark runs makes no difference: one thread, several, or the machines of a cluster."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
import pytest

from tests.executors.engine.spark.building import SLICE_ROWS
from tests.executors.engine.spark.standalone import cluster, needs_executors, standalone
from tests.real.building import DATA
from tests.support.servers.object_proxy import proxying
from tests.support.servers.object_store import CREDENTIALS, ObjectServer, serving_objects

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    needs_executors,
]

ROWS = 20_000


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a cluster of two workers."""
    with cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def built(folder: Path, master: str, *objects: str) -> Any:
    """Build the same source in a process of its own and return what the chains hold."""
    source = folder / "data" / "rows.csv"
    source.parent.mkdir(parents=True)
    drawn = random.Random(5)
    lines = [
        f"2024-01-{drawn.randint(1, 28):02} 00:00:{drawn.randint(0, 59):02},k{row},{row}"
        for row in range(ROWS)
    ]
    source.write_text("\n".join(["t,k,v", *lines, ""]), "utf-8")
    command = [sys.executable, "-m", "tests.executors.engine.spark.building", master, str(folder)]
    run = subprocess.run([*command, *objects], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_one_thread_two_and_a_cluster_of_two_workers_give_the_same_slices(
    master: str, tmp_path: Path
) -> None:
    alone = built(tmp_path / "alone", "local[1]")
    starts = list(range(0, ROWS, SLICE_ROWS))
    ends = [*(start - 1 for start in starts[1:]), ROWS - 1]
    assert [(start, end) for _, start, end, *_ in alone["src"]] == list(
        zip(starts, ends, strict=True)
    )
    assert len(alone["out"]) == 1
    assert built(tmp_path / "threads", "local[4]") == alone
    assert built(tmp_path / "cluster", master) == alone


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a mount of its own")
def test_workers_that_do_not_see_the_folder_give_the_same_slices_by_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "projects").mkdir()
    with apart(tmp_path / "projects", monkeypatch) as (master, store):
        alone = built(tmp_path / "projects" / "alone", "local[1]")
        assert built(tmp_path / "projects" / "cluster", master, store.url("files")) == alone
        assert_only_files(store)


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a mount of its own")
def test_slices_of_a_workspace_in_the_store_are_sent_by_nobody_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = tmp_path / "projects"
    projects.mkdir()
    with apart(projects, monkeypatch) as (master, store), proxying(store.port) as proxy:
        alone = built(projects / "alone", "local[1]")
        counted = ObjectServer(proxy.port)
        given = counted.url("files"), counted.url("home")
        assert built(projects / "cluster", master, *given) == alone
        assert store.files("files") == {}
    slices = {hash: size for *_, hash, size in alone["src"]}
    out = {hash: size for *_, hash, size in alone["out"]}
    sent: dict[str, list[int]] = {}
    for method, path, up, _ in proxy.moved:
        if method == "PUT" and up:
            sent.setdefault(path.rpartition("/")[2], []).append(up)
    # each slice of the source was sent by the task that made it, that of the query from here
    for hash, size in (slices | out).items():
        assert sent[hash] == [size]
    assert not any("/files/files/" in path for _, path, *_ in proxy.moved)


@pytest.fixture(scope="module")
def example_here(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what the example on real data holds that was built on this machine."""
    found = example(tmp_path_factory.mktemp("alone") / "example", "local[1]")
    assert len(found) == 7
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a mount of its own")
@pytest.mark.skipif(not DATA.is_dir(), reason="ODFBUILD_EXAMPLE_DATA names no folder")
@pytest.mark.parametrize(("home", "applies"), [("folder", 8), ("store", 2)])
def test_the_example_on_real_data_is_the_same_by_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example_here: Any, home: str, applies: int
) -> None:
    """Also its steps run again; slices of a workspace in the bucket are read where they are."""
    projects = tmp_path / "projects"
    projects.mkdir()
    with apart(projects, monkeypatch) as (master, store):
        given = ["--objects", store.url("files"), "--applies", str(applies)]
        given += ["--home", store.url("home")] if home == "store" else []
        found = example(projects / "cluster", master, *given)
        assert found == {name: example_here[name][: len(held)] for name, held in found.items()}
        assert all(found.values())
        assert len(found) == 7
        if home == "folder":
            assert_only_files(store)
        else:  # what is no slice, as a condensed history, is stored
            slices = {each["physical"] for held in found.values() for each in held}
            assert slices.isdisjoint(key.rpartition("/")[2] for key in store.files("files"))


@contextmanager
def apart(masked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ObjectServer]]:
    """Yield the address of a cluster, whose two workers see a folder empty, and a store."""
    for name, value in CREDENTIALS.items():  # of the workers, which are started with them
        monkeypatch.setenv(name, value)
    machines = masked.with_name("machines")
    machines.mkdir()
    with serving_objects() as store, standalone(machines) as running:
        for host in ("127.0.0.1", "127.0.0.2"):
            running.add_worker(host=host, masked=masked)
        yield running.address, store


def assert_only_files(store: ObjectServer) -> None:
    """Of all that steps stored, those files are left that later ones read."""
    pages = obstore.list(store.store("files"))
    left = [each["path"] for page in pages for each in page]
    assert left
    assert all("files/f1620" in each for each in left)


def example(folder: Path, master: str, *given: str) -> Any:
    """Build the example on real data in a process of its own and return what it holds."""
    module = "tests.executors.engine.spark.cluster.example"
    command = [sys.executable, "-m", module, master, str(folder), *given]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


_KEYS_IN_SPARK = """
import json, sys
from pyspark.sql import SparkSession
from odfbuild.executors.engine.spark.cluster.providers import NO_KEYS

building = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for name, value in NO_KEYS.items() if sys.argv[1] == "none" else ():
    building = building.config(name, value)
each = building.getOrCreate()._jsc.hadoopConfiguration().iterator()
found = []
while each.hasNext():
    entry = each.next()
    if entry.getValue() in ("id-of-tests", "key-of-tests", "token-of-tests"):
        found.append(entry.getKey())
print(json.dumps(sorted(found)))
"""


@pytest.mark.parametrize("keys", ["none", "some"])
def test_no_key_of_a_store_is_in_the_configuration_that_executors_get(keys: str) -> None:
    given = {
        "AWS_ACCESS_KEY_ID": "id-of-tests",
        "AWS_SECRET_ACCESS_KEY": "key-of-tests",
        "AWS_SESSION_TOKEN": "token-of-tests",
    }
    run = subprocess.run(
        [sys.executable, "-P", "-c", _KEYS_IN_SPARK, keys],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout)
    assert found == [] if keys == "none" else "fs.s3a.secret.key" in found
