"""Providers of sessions: what Java is started with, and what is refused before it is."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.cluster import providers
from odfbuild.executors.engine.spark.cluster.properties import (
    SECRET,
    VARIABLE,
    ClusterPropertyError,
    ClusterSecretError,
    cluster_properties,
)
from odfbuild.executors.engine.spark.cluster.providers import (
    ClusterProvider,
    ClusterUnreachableError,
    LocalProvider,
    check_reachable,
    configuration_folders,
    nominal_cores,
    provider_of,
    python_program,
)
from odfbuild.executors.engine.spark.settings import FIXED, GUARDED, PINNED, fixed_settings
from odfbuild.project.config.targets import RESOURCES

STANDALONE = "spark://127.0.0.1:7077"


@pytest.fixture(autouse=True)
def _of_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no settings of the user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    for name in (VARIABLE, "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)


def write_properties(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "settings" / "odfbuild" / "spark-cluster.conf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    file.chmod(mode)
    return file


def test_executors_of_a_cluster_get_no_key_of_a_store_but_those_of_its_own_properties(
    tmp_path: Path,
) -> None:
    write_properties(tmp_path, "spark.hadoop.fs.s3a.access.key theirs\n")
    found = provider_of("k8s://https://h:6443", objects="s3://files").place_settings(1, "1g")
    assert found["spark.hadoop.fs.s3a.access.key"] == "theirs"
    assert found["spark.hadoop.fs.s3a.secret.key"] == ""
    assert found["spark.odfbuild.objects"] == "s3://files"
    assert "spark.odfbuild.objects" in FIXED


def test_a_server_gets_no_setting_and_its_files_may_be_in_a_store() -> None:
    provider = provider_of("sc://h", {"spark.cores.max": "4"}, 5.0, "s3://files")
    assert (provider.is_remote, provider.objects, provider.wait) == (True, "s3://files", 5.0)
    assert provider.place_settings(1, "1g") == {}


@pytest.mark.parametrize("master", [None, "local", "local[4]", "local[*]"])
def test_on_this_machine_nothing_of_a_cluster_is_set(master: str | None) -> None:
    provider = provider_of(master, {"spark.cores.max": "4"}, 5.0)
    assert provider == LocalProvider(master)
    found = provider.place_settings(3, "1g")
    assert found["spark.master"] == (master or "local[3]")
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert not {"spark.executor.memory", "spark.cores.max"} & set(found)
    assert (nominal_cores(provider, 3), python_program(provider)) == (3, sys.executable)


def test_a_cluster_is_given_what_the_project_and_the_user_say_and_ours_counts_most(
    tmp_path: Path,
) -> None:
    write_properties(
        tmp_path,
        "# of the cluster\nspark.authenticate true\nspark.network.crypto.enabled=true\n"
        f"{SECRET} {'a1' * 16}\nspark.driver.host 127.0.0.7\n"
        "spark.kubernetes.container.image: registry.example/spark:4\nspark.cores.max = 2\n",
    )
    provider = provider_of(STANDALONE, {"spark.cores.max": "9", "spark.executor.cores": "1"})
    settings = fixed_settings(tmp_path, provider.place_settings(3, "1g"))
    assert settings["spark.master"] == STANDALONE
    assert settings["spark.driver.host"] == provider.address() == "127.0.0.7"
    assert settings["spark.kubernetes.container.image"] == "registry.example/spark:4"
    assert (settings["spark.cores.max"], settings["spark.executor.cores"]) == ("2", "1")
    assert (settings["spark.executor.memory"], settings[SECRET]) == ("1g", "a1" * 16)
    assert "-Duser.timezone=UTC" in settings["spark.executor.extraJavaOptions"]
    assert {name: settings[name] for name in (*PINNED, *GUARDED)} == {**PINNED, **GUARDED}


@pytest.mark.parametrize("name", sorted({*FIXED, "spark.sql.shuffle.partitions"}))
def test_no_setting_that_results_depend_on_is_given_by_anybody_else(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ClusterPropertyError, match=name.replace(".", r"\.")):
        ClusterProvider(master="yarn", settings={name: "x"}).place_settings(1, "1g")
    write_properties(tmp_path, f"{name} x\n")
    with pytest.raises(ClusterPropertyError, match=name.replace(".", r"\.")):
        ClusterProvider(master="yarn").place_settings(1, "1g")


def test_what_a_project_may_give_is_nothing_that_results_depend_on() -> None:
    assert not FIXED.intersection(RESOURCES)
    assert not [name for name in RESOURCES if "java" in name.lower() or "class" in name.lower()]


@pytest.mark.parametrize(
    ("text", "mode", "error"),
    [
        ("spark.network.crypto.enabled false\n", 0o600, ClusterPropertyError),
        ("theirs.name x\n", 0o600, ClusterPropertyError),
        ("spark.yarn.queue a\x1bb\n", 0o600, ClusterPropertyError),
        ("spark.yarn.queue q\n", 0o644, ClusterSecretError),
    ],
)
def test_a_file_of_properties_that_is_wrong_is_refused(
    tmp_path: Path, text: str, mode: int, error: type[Exception]
) -> None:
    write_properties(tmp_path, text, mode)
    with pytest.raises(error):
        cluster_properties()


def test_yarn_and_kubernetes_are_closed_without_a_secret_of_ours(tmp_path: Path) -> None:
    for master in ("yarn", "k8s://https://127.0.0.1:6443"):
        found = provider_of(master).place_settings(1, "1g")
        assert found["spark.authenticate"] == found["spark.network.crypto.enabled"] == "true"
        assert SECRET not in found
    write_properties(tmp_path, "spark.yarn.queue q\n")
    assert provider_of("yarn").place_settings(1, "1g")["spark.yarn.queue"] == "q"
    with pytest.raises(ClusterSecretError):  # a file without a secret is no open cluster
        provider_of(STANDALONE).place_settings(1, "1g")


@pytest.fixture
def port() -> Iterator[int]:
    """Return a port that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_master_that_answers_is_enough(port: int) -> None:
    check_reachable(provider_of(f"spark://127.0.0.1:1,127.0.0.1:{port}"))
    check_reachable(provider_of(f"k8s://https://127.0.0.1:{port}"))
    check_reachable(provider_of(f"k8s://127.0.0.1:{port}"))
    check_reachable(provider_of("local[2]"))


@pytest.mark.parametrize(
    "master",
    ["spark://127.0.0.1:1", "spark://a b:1", "spark://", "mesos://h:1", "k8s://http://127.0.0.1:1"],
)
def test_a_master_that_is_not_there_is_named_before_java_starts(master: str) -> None:
    with pytest.raises(ClusterUnreachableError) as caught:
        check_reachable(provider_of(master))
    assert master in caught.value.what


def test_yarn_needs_the_configuration_of_hadoop() -> None:
    with pytest.raises(ClusterUnreachableError, match="YARN") as caught:
        check_reachable(provider_of("yarn"), {})
    assert "HADOOP_CONF_DIR" in caught.value.fix
    env = {"HADOOP_CONF_DIR": "/etc/hadoop", "YARN_CONF_DIR": "/etc/hadoop"}
    check_reachable(provider_of("yarn"), env)
    assert configuration_folders(provider_of("yarn"), env) == ("/etc/hadoop",)
    assert configuration_folders(provider_of(STANDALONE), env) == ()


def test_the_interpreter_of_a_cluster_is_that_of_the_variable() -> None:
    env = {"PYSPARK_PYTHON": "/opt/python"}
    assert python_program(provider_of("yarn"), env) == "/opt/python"
    assert python_program(provider_of(None), env) == sys.executable


def test_the_address_is_that_of_the_route_to_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def route(host: str) -> str | None:
        asked.append(host)
        return None if host == "first.example" else f"by {host}"

    monkeypatch.setattr(providers, "_route", route)
    assert provider_of("spark://first.example:1,second.example:2").address() == "by second.example"
    assert provider_of("yarn").address() == "by 192.0.2.1"
    assert asked == ["first.example", "second.example", "192.0.2.1"]
