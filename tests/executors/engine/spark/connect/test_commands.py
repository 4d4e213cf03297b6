"""Commands about a server of Spark Connect: the plugin, doctor, the resident engine."""

import io
import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from odfbuild.executors.engine.spark import admission
from odfbuild.executors.engine.spark.cluster.connect.plugin import plugin_archive
from odfbuild.executors.engine.spark.cluster.properties import VARIABLE
from tests.executors.engine.spark.connect.server import TOKEN, properties_text
from tests.support.process.within import Within


@pytest.fixture
def here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    (tmp_path / "datasets").mkdir()
    lay(tmp_path, "sc://127.0.0.1:9")
    policy = tmp_path.with_name(f"{tmp_path.name}-policy.yaml")
    policy.write_text('odfbuild_policy: 1\nmasters: [local, "sc://*"]\n', "utf-8")
    monkeypatch.setenv("ODFBUILD_POLICY", str(policy))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    return Within(tmp_path, capsys, monkeypatch)


def lay(folder: Path, master: str) -> None:
    text = f'odfbuild: 1\nname: theirs\nengine: {{spark: {{master: "{master}"}}}}\n'
    (folder / "odfbuild.yaml").write_text(text, "utf-8")


def test_the_plugin_is_an_archive_of_the_classes_that_are_here(
    here: Within, tmp_path: Path
) -> None:
    done = here("engine", "plugin", "plugin.jar")
    assert done.code == 0
    assert "spark.connect.extensions.relation.classes odfbuild.AdmissionPlugin" in done.out
    data = (tmp_path / "plugin.jar").read_bytes()
    assert data == plugin_archive()
    folder = Path(admission.__file__).parent
    with ZipFile(io.BytesIO(data)) as archive:
        for name in ("AdmissionPlugin", "PlanCensus"):
            assert archive.read(f"odfbuild/{name}.class") == (folder / f"{name}.class").read_bytes()


@pytest.mark.holds("local-connect")
def test_doctor_refuses_a_server_without_a_token(
    here: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cluster() -> dict[str, str]:
        found = json.loads(here("doctor", "-o", "json").out)["checks"]
        return next(each for each in found if each["name"] == "cluster")

    path = tmp_path / "spark-cluster.conf"
    path.write_text("", "utf-8")
    path.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(path))
    assert cluster()["health"] == "bad"
    assert str(path) in cluster()["fix"]
    path.write_text(properties_text(), "utf-8")
    assert cluster()["health"] == "ok"
    lay(tmp_path, "sc://spark.example:443/;use_ssl=true")
    assert cluster()["health"] == "ok"
    lay(tmp_path, "sc://spark.example")
    assert cluster()["health"] == "bad"
    assert "in clear" in str(cluster())
    assert TOKEN not in str(cluster())


@pytest.mark.holds("local-connect")
def test_a_token_in_a_project_is_refused_and_not_repeated(here: Within, tmp_path: Path) -> None:
    lay(tmp_path, f"sc://127.0.0.1:9/;token={TOKEN}")
    for command in (("check",), ("sql", "select 1"), ("doctor",), ("engine", "status")):
        done = here(*command)
        assert done.code != 0
        assert "'master' has a token" in done.err + done.out
        assert TOKEN not in done.err + done.out


def test_a_server_that_is_not_there_is_told(
    here: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "missing"))
    monkeypatch.delenv(VARIABLE)
    done = here("sql", "select 1")
    assert done.code != 0
    assert "cluster-unreachable" in done.err
    assert "sc://127.0.0.1:9" in done.err


def test_there_is_no_engine_to_start(here: Within) -> None:
    done = here("engine", "start")
    assert done.code != 0
    assert "there is nothing to start: Spark runs in sc://127.0.0.1:9" in done.err
    assert here("engine", "status").out == "No resident engine is running.\n"
    assert here("engine", "stop").code == 0
