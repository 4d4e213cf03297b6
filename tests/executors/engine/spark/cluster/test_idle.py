"""A resident engine on a cluster that nobody uses: its executors are for others, and come back."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.executors.engine.spark.cluster.test_cluster_faults import Project, wait_until
from tests.executors.engine.spark.standalone import Standalone, needs_executors, standalone
from tests.support.projects import Done, program

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    needs_executors,
]


@pytest.fixture
def running(tmp_path: Path) -> Any:
    """Give a cluster of two workers of one core each."""
    (tmp_path / "cluster").mkdir()
    with standalone(tmp_path / "cluster") as found:
        for _ in range(2):
            found.add_worker()
        yield found


def command(project: Project, *arguments: str) -> Done:
    around = {
        "ODFBUILD_POLICY": str(project.folder.with_name(f"{project.folder.name}-policy.yaml")),
        "XDG_CONFIG_HOME": str(project.folder.with_name("settings")),
        "ODFBUILD_CLASS_ARCHIVE": "off",
    }
    return program(*arguments, cwd=project.folder, **around)


def status(project: Project) -> dict[str, Any]:
    found = json.loads(command(project, "engine", "status", "-o", "json").out)
    assert isinstance(found, dict)
    return found


def started(cluster: Standalone, application: str) -> list[int]:
    """Return how many executors of an application each worker has started so far."""
    works = sorted(cluster.folder.glob("work-*"))
    return [len(list((each / application).glob("[0-9]*"))) for each in works]


def application_of(cluster: Standalone) -> str:
    (found,) = {each.name for each in cluster.folder.glob("work-*/app-*")}
    return found


def test_executors_go_to_others_while_nobody_uses_it_and_come_back(
    running: Standalone, tmp_path: Path
) -> None:
    ours = Project(tmp_path / "ours", running.address, resident="existing")
    begun = command(ours, "engine", "start", "--idle", "60m")
    assert begun.code == 0, begun.err
    try:
        code, said = ours.apply()
        assert code == 0, said
        mine, there = application_of(running), status(ours)
        wait_until(lambda: sum(started(running, mine)) == 2)
        other = Project(tmp_path / "other", running.address, wait="2m")
        code, said = other.apply()
        assert code == 0, said
        again = status(ours)
        assert (again["state"], again["pid"], again["served"]) == ("ready", there["pid"], 1)
        (ours.folder / "data" / "2.csv").write_text("t,k,v\n2024-02-01 00:00:00,k1,9999\n")
        code, said = ours.apply()
        assert code == 0, said
        assert status(ours)["served"] == 2
        wait_until(lambda: sum(started(running, mine)) == 4)
        assert started(running, mine) == [2, 2]
        assert {row["k"]: row["v"] for row in ours.rows("out")}["k1"] == 9999
    finally:
        assert command(ours, "engine", "stop", "--now").code == 0
    settings = json.loads((ours.folder / "odfbuild.yaml").read_text("utf-8"))
    settings["engine"]["spark"] = {"master": "local", "resident": "off"}
    (ours.folder / "odfbuild.yaml").write_text(json.dumps(settings), "utf-8")
    replayed = command(ours, "verify", "--replay")
    assert replayed.code == 0, (replayed.out, replayed.err)
