"""Two teams and a checkout for CI, with a bucket between them: what each does, in its order."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import obstore
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark import engine as spark
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.program.test_remote_inputs import DAILY, RATES
from tests.support.engines import FakeEngine
from tests.support.process.within import Within
from tests.support.projects import Done
from tests.support.servers.object_store import CREDENTIALS, ObjectServer, serving_objects

SETTINGS = "odfbuild: 1\nname: {name}\nrepositories:\n  hub: {{url: '{url}', trust: signed}}\n"
CORRECTED = RATES.replace("kind: Ledger", "kind: UpsertStream")
FEES = RATES.replace("rates", "fees").replace("data/*", "fees/*")
COSTS = DAILY.replace("daily", "costs").replace("rates", "fees")


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectServer]:
    with serving_objects() as server:
        yield server


class Project:
    """A checkout of a user of its own, who may write to the bucket."""

    def __init__(self, within: Within) -> None:
        self.folder = within.folder
        self._within = within

    def __call__(self, *arguments: str) -> Done:
        state = str(self.folder.with_name(f"{self.folder.name}-state"))
        return self._within(*arguments, XDG_STATE_HOME=state, **CREDENTIALS)

    def ok(self, *arguments: str) -> str:
        done = self(*arguments)
        assert done.code == 0, done
        return done.out

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.folder / ".odfbuild")

    def rates(self) -> dict[tuple[str, str], int]:
        """Return what stands of the daily rates, of all that was said and taken back."""
        daily = self.workspace.open(DatasetAlias.parse("daily"))
        assert daily is not None
        found: dict[tuple[str, str], int] = {}
        for _, path in daily.slices():
            for row in pq.read_table(path).to_pylist():
                key, value = (str(row["t"]), row["k"]), row["v"]
                if row["op"] in (1, 2):  # -R, -C
                    assert found.pop(key) == value
                else:
                    assert key not in found
                    found[key] = value
        return found


@pytest.fixture(
    params=["quick", pytest.param("spark", marks=(pytest.mark.spark, pytest.mark.slow))]
)
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Have the steps of commands done by the engine of the tests, or in one JVM for all of them."""
    if request.param == "quick":
        quick = FakeEngine()
        monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: quick)
        yield
    else:
        with spark.SparkEngine(tmp_path / "jvm", cores=2) as real:
            real.prepare()
            yield


@pytest.mark.usefixtures("engine")
def test_two_teams_share_a_dataset_through_a_bucket(
    store: ObjectServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b, ci, stranger = (
        Project(Within(tmp_path / name, capsys, monkeypatch)) for name in ("a", "b", "ci", "new")
    )
    place = tmp_path.name
    for each in (a, b, stranger):
        (each.folder / "datasets").mkdir(parents=True)
        each.write("odfbuild.yaml", SETTINGS.format(name=each.folder.name, url=store.url(place)))
    a.write("datasets/rates.yaml", CORRECTED)
    a.write("data/1.csv", "t,k,v\n2024-01-01,x,1\n2024-01-01,y,2\n")
    a.write("datasets/fees.yaml", FEES)
    a.write("fees/1.csv", "t,k,v\n2024-01-01,x,7\n")
    b.write("datasets/daily.yaml", DAILY)
    b.write("datasets/costs.yaml", COSTS)
    assert a.ok("repo", "check", "hub").splitlines()[-1].split() == ["hub", "yes", "yes"]
    a.ok("apply", "-y")
    for name in ("rates", "fees"):
        a.ok("push", name, "--to", f"hub/acme/{name}")

    assert "hub/acme/rates" in b.ok("search", "acme")
    b.ok("apply", "-y")
    b.ok("lock")
    first = {("2024-01-01", "x"): 1, ("2024-01-01", "y"): 2}
    assert b.rates() == first
    shutil.copytree(b.folder, ci.folder, ignore=shutil.ignore_patterns(".odfbuild"))
    assert "offline-input" in ci("apply", "-y", "--offline").err
    ci.ok("lock", "--check")
    ci.ok("apply", "-y")
    assert ci.rates() == first
    ci.ok("verify", "--signatures", "hub.acme/rates")

    a.write("data/2.csv", "t,k,v\n2024-01-01,y,40\n2024-01-02,x,5\n")
    a.ok("apply", "-y")
    a.ok("push")
    later = first | {("2024-01-01", "y"): 40, ("2024-01-02", "x"): 5}
    for each in (b, ci):
        each.ok("apply", "-y")
        assert each.rates() == later
        assert each.ok("apply", "-y").startswith("No changes.")

    a.write("datasets/fees.yaml", FEES.replace("          - v BIGINT\n", ""))
    a.write("fees/2.csv", "t,k\n2024-01-02,x\n")
    a.ok("apply", "-y", "--gate", "off")
    a.ok("push")
    for each in (b, ci):
        before = each.workspace.heads()
        done = each("apply", "-y")
        assert done.code == 3
        assert "v is no longer produced by hub.acme/fees" in done.out
        assert each.workspace.heads() == before

    stored = store.store(f"{place}/acme/rates")
    for path in [each["path"] for page in obstore.list(stored, "data") for each in page]:
        obstore.put(stored, path, bytes(obstore.get(stored, path).bytes())[::-1])
    done = stranger("clone", "hub/acme/rates")
    assert done.code == 1
    assert "broken-source" in done.err
    assert not stranger.workspace.heads()
