"""Where a server is, and who may see the token on its way."""

import subprocess
import sys
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.cluster.connect.channel import (
    ConnectClientError,
    ServerPlace,
    check_token,
    require_client,
)
from odfbuild.executors.engine.spark.cluster.properties import (
    VARIABLE,
    ClusterSecretError,
    cluster_properties,
    connect_token,
)
from odfbuild.executors.engine.spark.cluster.providers import (
    ClusterUnreachableError,
    check_reachable,
    provider_of,
)
from tests.executors.engine.spark.connect.server import CLIENT
from tests.support.effort import examples
from tests.support.projects import REPOSITORY, environment
from tests.support.servers.object_store import free_ports

TOKEN = "x" * 32


@pytest.mark.parametrize(
    ("master", "target", "has_tls", "is_here"),
    [
        ("sc://localhost", "localhost:15002", False, True),
        ("sc://127.0.0.1:7", "127.0.0.1:7", False, True),
        ("sc://[::1]:7/;use_ssl=true", "[::1]:7", True, True),
        ("sc://spark.example:443/;use_ssl=true", "spark.example:443", True, False),
        ("sc://10.0.0.1", "10.0.0.1:15002", False, False),
        ("sc://127.0.0.1.example", "127.0.0.1.example:15002", False, False),
    ],
)
def test_an_address_is_read(master: str, target: str, has_tls: bool, is_here: bool) -> None:
    found = ServerPlace.of(master)
    assert (found.target, found.has_tls, found.is_here) == (target, has_tls, is_here)


@pytest.mark.parametrize(
    "master", ["sc://", "spark://a:1", "sc://a/;token=x", "sc://u:p@a", "sc://a/x", "sc://a?x=1"]
)
def test_another_text_is_no_address(master: str) -> None:
    with pytest.raises(ValueError, match="no address of a server"):
        ServerPlace.of(master)


@pytest.mark.holds("local-connect")
def test_a_token_goes_through_tls_or_stays_here() -> None:
    for master in ("sc://localhost", "sc://127.0.0.1", "sc://a.example/;use_ssl=true"):
        check_token(ServerPlace.of(master), TOKEN)
    check_token(ServerPlace.of("sc://a.example"), None)
    with pytest.raises(ClusterSecretError, match="in clear") as caught:
        check_token(ServerPlace.of("sc://a.example"), TOKEN)
    assert TOKEN not in str(caught.value)


@pytest.mark.holds("local-connect")
def test_the_token_is_in_a_file_of_the_user_or_in_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "spark-cluster.conf"
    env = {VARIABLE: str(path), "SPARK_CONNECT_AUTHENTICATE_TOKEN": "e" * 20}
    assert connect_token({"SPARK_CONNECT_AUTHENTICATE_TOKEN": "e" * 20}) == "e" * 20
    path.write_text(f"spark.connect.authenticate.token {TOKEN}\nspark.x 1\n", "utf-8")
    path.chmod(0o600)
    assert connect_token(env) == TOKEN
    assert cluster_properties(env) == {"spark.x": "1"}
    path.chmod(0o644)
    with pytest.raises(ClusterSecretError, match="others may use it"):
        connect_token(env)
    path.chmod(0o600)
    path.write_text("spark.connect.authenticate.token short\n", "utf-8")
    with pytest.raises(ClusterSecretError, match="cannot be used") as caught:
        connect_token(env)
    assert "short" not in str(caught.value)


def test_a_port_that_nobody_listens_at_is_refused_at_once() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ClusterUnreachableError, match=f"sc://127.0.0.1:{port}"):
        check_reachable(provider_of(f"sc://127.0.0.1:{port}"))


@pytest.mark.parametrize("package", ["pandas", "grpc_status"])
def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    loaded = ("pyspark.sql.connect", "pyspark.testing")
    for name in [each for each in sys.modules if each.startswith(loaded)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConnectClientError, match="cannot be loaded") as caught:
        require_client()
    assert "odfbuild[connect]" in caught.value.fix


_FIRST = """
import random, sys, threading, time
import grpc, grpc_status, pandas, py4j.protocol
from odfbuild.executors.engine.spark.cluster.connect.channel import require_client
from odfbuild.executors.engine.spark.errors import spark_errors

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            time.sleep(draw.random() * 0.004)

def step():
    with spark_errors("run"):
        pass

def run(work):
    try:
        time.sleep(draw.random() * 0.01)
        work()
    except BaseException as error:
        print(repr(error))

draw = random.Random(int(sys.argv[1]))
sys.meta_path.insert(0, Slow())
threads = [threading.Thread(target=run, args=(work,)) for work in (require_client, step, step)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_a_step_and_the_start_of_a_session_may_load_pyspark_at_once() -> None:
    for seed in range(examples(4, 100)):
        done = subprocess.run(
            [sys.executable, "-P", "-c", _FIRST, str(seed)],
            env=environment(PYTHONPATH=f"{REPOSITORY}:{CLIENT}"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), seed
