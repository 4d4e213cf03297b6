"""One workspace in a real object store, and several machines that work on it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.cli import exits
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.serve.access import private_datasets
from odfbuild.serve.settings import token_file
from odfbuild.state.remote.view.visibility import StoredVisibility
from odfbuild.state.remote.workspace import BucketWorkspace
from odfbuild.state.workspace import Workspace
from tests.support.process.inside import command, lay_out, without_jvm
from tests.support.projects import EXAMPLES, REPOSITORY, Done, odfbuild
from tests.support.projects.market import FILES, SETTINGS
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import CREDENTIALS, ObjectServer

ROWS = "t,k,v\n2024-01-05,z,7\n"


class Machine:
    """A user elsewhere: the same project, another home for caches and state."""

    def __init__(self, folder: Path, store: ObjectServer, url: str) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        settings = f'{SETTINGS}targets:\n  dev: {{workspace: "{url}"}}\n'
        lay_out(self.project, {**FILES, "odfbuild.yaml": settings})
        self.env = {
            **store.credentials,
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def __call__(self, *arguments: str) -> Done:
        return without_jvm(*arguments, cwd=self.project, **self.env)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        line, environment = command(*arguments)
        return subprocess.Popen(
            line, cwd=self.project, env={**environment, **self.env}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def head(self, name: str) -> str:
        done = self("log", name)
        assert done.code == 0, done.err
        return done.out.splitlines()[0].removeprefix("block ")

    def rows(self, name: str) -> list[dict[str, object]]:
        done = self("show", name, "-o", "json", "-n", "1000")
        assert done.code == 0, done.err
        found: list[dict[str, object]] = json.loads(done.out)
        return found


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"shared-{tmp_path.parent.name}-{tmp_path.name}"


@pytest.fixture
def here(store: ObjectServer, prefix: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "here", store, store.url(prefix))


@pytest.fixture
def there(store: ObjectServer, prefix: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "there", store, store.url(prefix))


@pytest.fixture
def applied(here: Machine) -> Machine:
    done = here("apply", "--yes")
    assert done.code == 0, done.err
    return here


def whole(store: ObjectServer, prefix: str) -> dict[str, list[str]]:
    """Return the events of every chain by its name, having found all that these speak of."""
    files = store.files(prefix)
    found = {}
    for key, data in files.items():
        if not key.startswith("names/") or not data:
            continue
        id, name, _ = data.decode().split("\n")
        base = f"datasets/{id.removeprefix('did:odf:')}/"
        at: Multihash | None = Multihash.parse(files[f"{base}refs/head"].decode())
        events = []
        while at is not None:
            block = decode_block(files[f"{base}blocks/{at}"])
            events.append(type(block.event).__name__)
            data_slice = getattr(block.event, "new_data", None)
            if data_slice is not None:
                assert f"{base}data/{data_slice.physical_hash}" in files
            at = block.prev_block_hash
        found[name] = events[::-1]
    return found


@pytest.mark.parametrize(
    "store", ["running_store", "simulated_store", "azure_store", "google_store"], indirect=True
)
def test_what_one_machine_made_the_other_goes_on_with(
    applied: Machine, there: Machine, store: ObjectServer, prefix: str
) -> None:
    for machine in (applied, there):
        done = machine("plan")
        assert (done.code, done.err) == (0, "")
        assert "No changes. 4 datasets match the project." in done.out
    assert there.rows("out") == applied.rows("out")
    lay_out(there.project, {"data/2.csv": ROWS})
    done = there("apply", "--yes")
    assert done.code == 0, done.err
    assert "committed to 3 datasets" in done.err + done.out
    assert len(there.rows("report")) == len(applied.rows("report")) == 3
    lay_out(applied.project, {"data/2.csv": ROWS})
    assert "No changes" in applied("plan").out
    assert set(whole(store, prefix)) == {"src", "acme/side", "out", "report"}


def test_a_tree_in_the_store_is_the_one_of_a_folder(
    applied: Machine, store: ObjectServer, prefix: str
) -> None:
    parts = {key.split("/")[0] for key in store.files(prefix)}
    assert parts == {"datasets", "names", "runs", "leases", "format"}
    names = {key for key in store.files(prefix) if key.startswith("names/")}
    assert names == {"names/src", "names/out", "names/report", "names/acme%2Fside"}
    assert not (applied.project / ".odfbuild").exists()


def test_runs_of_all_machines_are_seen_and_taken_back_by_any(
    applied: Machine, there: Machine
) -> None:
    before = applied.head("src")
    lay_out(applied.project, {"data/2.csv": ROWS})
    assert applied("apply", "--yes").code == 0
    (newest, _) = json.loads(there("runs", "-o", "json").out)
    assert (newest["outcome"], newest["records"]) == ("done", 3)
    shown = there("runs", newest["run"])
    assert shown.code == 0
    assert "ingest:src" in shown.out
    lay_out(there.project, {"data/2.csv": ROWS})
    done = there("undo", "last", "--yes")
    assert done.code == 0, done.err
    assert applied.head("src") == there.head("src") == before
    assert [each["command"] for each in json.loads(applied("runs", "-o", "json").out)] == [
        "undo", "apply", "apply",
    ]  # fmt: skip
    assert there("undo", "last", "--yes").code == 0  # and forth again
    assert len(applied.rows("src")) == 3


def test_a_verification_looks_at_what_the_store_has(
    applied: Machine, store: ObjectServer, prefix: str
) -> None:
    assert applied("verify").code == 0
    data = next(key for key in store.files(prefix) if "/data/" in key)
    import obstore

    bucket = store.store(prefix)
    found = bytes(obstore.get(bucket, data).bytes())
    obstore.put(bucket, data, found[:-1] + b"?")
    done = applied("verify")
    assert done.code != 0
    assert "1 failed" in done.out + done.err
    obstore.delete(bucket, data)
    done = applied("verify")
    assert done.code != 0
    assert "is missing" in done.out + done.err


def test_garbage_is_kept_for_a_day_and_told(applied: Machine) -> None:
    done = applied("gc", "--older-than", "1h")
    assert done.code == 1
    assert "too-young" in done.err
    done = applied("gc")
    assert (done.code, done.err) == (0, "")
    assert "Nothing to free in 4 datasets." in done.out


def test_a_dataset_in_the_store_is_a_repository(
    applied: Machine, store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    key = next(k for k, v in store.files(prefix).items() if k == "names/src")
    id = store.files(prefix)[key].decode().split("\n")[0].removeprefix("did:odf:")
    project = lay_out(tmp_path / "other", {})
    url = f"{store.url(prefix)}datasets/{id}/"
    done = without_jvm("pull", url, "--as", "copy", cwd=project, **CREDENTIALS)
    assert done.code == 0, done.err
    assert "2 records" in done.out + done.err


def test_two_machines_that_apply_at_once_end_as_one(
    applied: Machine, there: Machine, store: ObjectServer, prefix: str
) -> None:
    """One waits for the lease of the other, plans again, and finds nothing to do."""
    before = whole(store, prefix)
    for machine in (applied, there):
        lay_out(machine.project, {"data/2.csv": ROWS})
    running = [machine.start("apply", "--yes") for machine in (applied, there)]
    ended = [each.communicate(timeout=240) for each in running]
    assert [each.returncode for each in running] == [0, 0], ended
    after = whole(store, prefix)
    more = {name: events[len(before[name]) :] for name, events in after.items()}
    assert more == {
        "src": ["AddData"], "out": ["ExecuteTransform"], "report": ["ExecuteTransform"],
        "acme/side": [],
    }  # fmt: skip
    assert sorted(str(row["k"]) for row in there.rows("src")) == ["a", "b", "z"]


@pytest.fixture
def proxy(store: ObjectServer) -> Iterator[ObjectProxy]:
    with proxying(store.port) as found:
        yield found


def test_nothing_is_written_to_a_store_that_ignores_conditions(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path
) -> None:
    proxy.lies = store.store()
    url = store.url(prefix, proxy.port)
    machine = Machine(tmp_path / "here", store, url)
    done = machine("apply", "--yes")
    assert done.code != 0
    assert "unsafe-store" in done.err
    assert not any("/datasets/" in key for key in store.files(prefix))


def test_an_apply_asks_thrice_at_most_for_what_it_does_not_touch(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path
) -> None:
    """Requests grow with the datasets of a workspace by a few a command, not a few a step."""
    here = Machine(tmp_path / "here", store, store.url(prefix, proxy.port))
    assert here("apply", "--yes").code == 0
    names = {
        key.removeprefix("names/"): data.decode().split("\n")[0].removeprefix("did:odf:")
        for key, data in store.files(prefix).items()
        if key.startswith("names/")
    }

    def reads_of_heads(*arguments: str) -> dict[str, int]:
        proxy.asked.clear()
        assert here(*arguments).code == 0
        gets = [path for method, path, _ in proxy.asked if method == "GET"]
        assert sum("list-type=2" in path for path in gets) <= 30
        return {name: sum(f"{id}/refs/head" in path for path in gets) for name, id in names.items()}

    assert reads_of_heads("plan") == dict.fromkeys(names, 1)
    lay_out(here.project, {"data/2.csv": ROWS})
    assert reads_of_heads("apply", "--yes")["acme%2Fside"] <= 3
    puts = [path for method, path, _ in proxy.asked if method == "PUT"]
    for name in ("src", "out", "report"):
        of_objects = [path for path in puts if names[name] in path and "/leases/" not in path]
        assert len(of_objects) == 3  # a slice, a block, the head


def test_a_cache_that_was_damaged_or_deleted_is_filled_again(applied: Machine) -> None:
    before = applied.rows("src")
    for path in (applied.folder / "cache" / "odfbuild" / "objects").rglob("f1620*"):
        if path.is_file() and path.parent.name != "used":
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert applied.rows("src") == before
    shutil.rmtree(applied.folder / "cache")
    shutil.rmtree(applied.folder / "state")
    assert applied.rows("src") == before
    assert "No changes" in applied("plan").out


def test_a_store_elsewhere_needs_the_consent_of_its_user(here: Machine, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("odfbuild_policy: 1\n")
    here.env["ODFBUILD_POLICY"] = str(policy)
    done = here("plan")
    assert done.code == 1
    assert "store-not-permitted" in done.err
    assert "stores:" in done.err


def tree(folder: Path) -> dict[str, bytes]:
    tops = ("datasets", "names", "runs")
    paths = (path for top in tops for path in (folder / top).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_workspace_goes_to_a_store_and_back_byte_for_byte(
    here: Machine, store: ObjectServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (here.project / "odfbuild.yaml").read_text()
    lay_out(here.project, {"odfbuild.yaml": SETTINGS})
    assert here("apply", "--yes").code == 0
    for name, value in here.env.items():
        monkeypatch.setenv(name, value)
    id = Workspace(here.project / ".odfbuild").names()[DatasetAlias.parse("src")]
    private_datasets(token_file(here.project / ".odfbuild")).add(id)
    done = here("workspace", "move", store.url(prefix))
    assert (done.code, done.err) == (0, "")
    assert "Private datasets stay private: 1." in done.out
    client = BucketWorkspace(store.url(prefix)).client
    assert StoredVisibility(client, client).ids() == {id}
    assert f"workspace: {store.url(prefix)}" in done.out
    again = here("workspace", "move", store.url(prefix))
    assert "of them were there" in again.out
    lay_out(here.project, {"odfbuild.yaml": settings})
    assert "No changes. 4 datasets match the project." in here("plan").out
    assert here("verify").code == 0
    assert here("workspace", "move", "back").code == 0
    assert private_datasets(token_file(here.project / "back")).ids() == {id}
    assert tree(here.project / "back") == tree(here.project / ".odfbuild")
    lay_out(here.project, {"data/2.csv": ROWS})
    assert here("apply", "--yes").code == 0
    done = here("workspace", "move", ".odfbuild")
    assert done.code == 1
    assert "occupied-place" in done.err or "moved-meanwhile" in done.err


def test_what_a_store_cannot_have_yet_is_refused_with_a_way_on(applied: Machine) -> None:
    done = applied("lineage", "add", "src", "did:odf:elsewhere")
    assert done.code != 0
    assert "on one machine" in done.err


def test_a_doctor_looks_at_the_store(applied: Machine, store: ObjectServer, prefix: str) -> None:
    done = applied("doctor")
    assert "supports conditional writes" in done.out
    assert applied("unlock", "src").out == "Nobody holds a lease on src.\n"
    assert applied("drift").code == 0
    store.store(prefix).put("format", b'{"odfbuild_workspace": 99}')
    done = applied("doctor")
    assert done.code == exits.ERROR
    assert "has a layout that this version of odfbuild does not know" in done.out


def test_who_writes_a_lease_does_not_write_to_the_terminal(
    applied: Machine, store: ObjectServer, prefix: str
) -> None:
    holder = {"user": "\x1b[31meve\nReleased", "host": ["x"]}
    store.store(prefix).put("leases/src", json.dumps(holder).encode())
    doctor, freed = applied("doctor").out, applied("unlock", "src").out
    assert r"user \x1b[31meve\nReleased" in doctor, doctor
    assert freed.startswith(r"Released src, held by \x1b[31meve\nReleased on ['x']; renewed ")
    assert freed.count("\n") == 1


LOOKS = (
    ("plan",),
    ("status", "-o", "json"),
    ("log", "report"),
    ("show", "out", "-o", "json"),
    ("sql", "select count(*) as n from src", "--engine", "datafusion", "-o", "json"),
    ("explain", "report"),
    ("explain-row", "report", "1"),
    ("docs", "build", "--out", "-"),
)


def test_what_was_seen_of_a_store_is_shown_without_asking_it(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path
) -> None:
    url = store.url(prefix, proxy.port)
    here, there = (Machine(tmp_path / name, store, url) for name in ("here", "there"))
    assert here("apply", "--yes").code == 0
    asked = {look: here(*look) for look in LOOKS}
    lay_out(there.project, {"data/2.csv": ROWS})
    assert there("apply", "--yes").code == 0
    proxy.asked.clear()
    for look, seen in asked.items():
        done = here(*look, "--offline", "--quiet")
        assert (done.code, done.out) == (seen.code, seen.out)
        assert done.err.startswith(f"{url} is not contacted: shown as seen at 20")
    nobody = Machine(tmp_path / "nobody", store, url)("status", "--offline")
    assert nobody.code == exits.ERROR
    assert "error[offline]" in nobody.err
    assert "was never read on this machine" in nobody.err
    shutil.rmtree(here.folder / "cache")
    done = here("show", "out", "--offline")
    assert (done.code, "error[offline]" in done.err) == (exits.ERROR, True)
    assert "run the command without --offline" in done.err
    assert proxy.asked == []
    assert len(here.rows("report")) == 3


DATA = Path(os.environ.get("ODFBUILD_EXAMPLE_DATA") or REPOSITORY.parent / "shared" / "data")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="ODFBUILD_EXAMPLE_DATA names no folder")
def test_real_data_in_a_store_is_what_it_is_in_a_folder(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    """Tables of Italy with corrections: half of them by one machine, the rest by another."""
    tables = sorted((DATA / "italy-covid-regions" / "national-full-snapshots").glob("*.csv"))[:4]
    definitions = ("national.yaml", "hospital-load.yaml")
    projects = [tmp_path / each / "project" for each in ("folder", "one", "two")]
    for project in projects:
        settings = "odfbuild: 1\nname: real-data\n"
        if project.parent.name != "folder":
            settings += f'targets:\n  dev: {{workspace: "{store.url(prefix)}"}}\n'
        texts = {
            f"datasets/{name}": (EXAMPLES / "italy-covid" / "datasets" / name).read_text("utf-8")
            for name in definitions
        }
        lay_out(project, {"odfbuild.yaml": settings, **texts})

    def apply(project: Path, count: int) -> list[dict[str, object]]:
        folder = project / "data" / "italy-covid-regions" / "national-full-snapshots"
        folder.mkdir(parents=True, exist_ok=True)
        for table in tables[:count]:
            shutil.copy2(table, folder)
        home = {"XDG_CACHE_HOME": str(project.parent / "cache")}
        home["XDG_STATE_HOME"] = str(project.parent / "state")
        done = odfbuild("apply", "--yes", cwd=project, **CREDENTIALS, **home)
        assert done.code == 0, done.err
        shown = odfbuild(
            "show", "it.covid.hospital-load", "--log", "-o", "json", "-n", "100000",
            cwd=project, **CREDENTIALS, **home,
        )  # fmt: skip
        found: list[dict[str, object]] = json.loads(shown.out)
        return [{k: v for k, v in row.items() if k != "system_time"} for row in found]

    folder, one, two = projects
    assert apply(one, 2) == apply(folder, 2)
    assert apply(two, 4) == apply(folder, 4)
