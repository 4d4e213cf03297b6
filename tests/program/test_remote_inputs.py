"""Projects that read datasets of repositories: two teams, a folder between them."""

import json
import secrets
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.app import open_project
from odfbuild.app.plan.remote_inputs import pull_input
from odfbuild.cli.arguments.pools import run_settings_of
from odfbuild.executors.engine.spark import engine as spark
from odfbuild.odf.events import AddData
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Plan, Pull
from odfbuild.project.lock import read_lock
from odfbuild.project.opened import Opened
from odfbuild.repositories.inputs import (
    HistoryGivenUpError,
    OtherDatasetError,
    RemoteBehindError,
    RemoteDivergedError,
)
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace
from tests.repositories.places import served
from tests.support.engines import FakeEngine
from tests.support.process.within import Within
from tests.support.projects import Done

RATES = """\
kind: DatasetSnapshot
version: 1
content:
  name: rates
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: data/*.csv
        order: ByName
      read:
        kind: Csv
        header: true
        ddlSchema:
          - t DATE NOT NULL
          - k STRING NOT NULL
          - v BIGINT
      merge:
        kind: Ledger
        primaryKey: [k, t]
    - kind: SetVocab
      eventTimeColumn: t
"""
DAILY = """\
kind: DatasetSnapshot
version: 1
content:
  name: daily
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs:
        - datasetRef: hub/acme/rates
      transform:
        kind: Sql
        engine: spark
        query: select t, k, v from rates
    - kind: SetVocab
      eventTimeColumn: t
"""


TOTALS = (
    DAILY.replace("daily", "totals")
    .replace(
        "query: select t, k, v from rates",
        "query: select t as day, sum(v) as total from rates group by t",
    )
    .replace("eventTimeColumn: t", "eventTimeColumn: day")
)


@dataclass(frozen=True, slots=True)
class PlannedSteps:
    """A plan as JSON."""

    document: dict[str, Any]

    @property
    def steps(self) -> set[str]:
        return {step["id"] for step in self.document["steps"]}


class Team:
    """The project of one team, and the folder that it shares datasets through."""

    def __init__(self, folder: Path, within: Within, hub: Path) -> None:
        self.folder = folder
        self.run = within
        self.hub = hub

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.folder / ".odfbuild")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def dataset(self, name: str) -> Dataset:
        found = self.workspace.open(DatasetAlias.parse(name))
        assert found is not None, f"{name}: {list(self.workspace.names())}"
        return found

    def rows(self, name: str) -> list[dict[str, object]]:
        paths = [path for _, path in self.dataset(name).slices()]
        return [row for path in paths for row in pq.read_table(path).to_pylist()]

    def values(self, name: str) -> list[object]:
        return [row["v"] for row in self.rows(name)]

    def chain(self, name: str) -> list[tuple[str, int, int]]:
        """Return hash, records and bytes of files of each block, oldest first."""
        dataset = self.workspace.open(DatasetAlias.parse(name))
        found = []
        for hash, block in () if dataset is None else dataset.blocks():
            event = block.event
            data = event.new_data if isinstance(event, AddData) else None
            rows = 0 if data is None else data.offset_interval.end - data.offset_interval.start + 1
            found.append((str(hash), rows, 0 if data is None else data.size))
        return found

    def plan(self, *more: str) -> PlannedSteps:
        done = self.run("plan", "-o", "json", *more)
        assert done.code == 0, done
        return PlannedSteps(json.loads(done.out))

    def add(self, file: str, *rows: str, header: str = "t,k,v") -> None:
        """Take in a file, and publish what came of it."""
        self.write(f"data/{file}", "\n".join([header, *rows]) + "\n")
        done = self.run("apply", "-y", "--gate", "off")
        assert done.code == 0, done
        self.publish("rates", "acme/rates")

    def publish(self, name: str, as_: str) -> None:
        """Put a dataset into the shared folder as it is."""
        id = self.dataset(name).id
        target = self.hub / as_
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.folder / ".odfbuild" / "datasets" / id.multibase, target)


Teams: TypeAlias = tuple[Team, Team]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    engine = FakeEngine()
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: engine)
    return engine


@pytest.fixture
def teams(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: FakeEngine,
) -> Teams:
    """Return two teams: A has published its rates, B reads them."""
    hub = tmp_path / "hub"
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        team = Team(folder, Within(folder, capsys, monkeypatch), hub)
        team.write(
            "odfbuild.yaml",
            f"odfbuild: 1\nname: {name}\nrepositories:\n  hub: {{url: '{hub.as_uri()}/'}}\n",
        )
        made.append(team)
    a, b = made
    a.write("datasets/rates.yaml", RATES)
    a.write("data/1.csv", "t,k,v\n2024-01-01,x,1\n2024-01-01,y,2\n")
    assert a.run("apply", "-y").code == 0
    a.publish("rates", "acme/rates")
    b.write("datasets/daily.yaml", DAILY)
    return a, b


def test_an_input_of_a_repository_is_pulled_before_it_is_read(teams: Teams) -> None:
    a, b = teams
    planned = b.plan()
    assert planned.steps == {"pull:hub.acme/rates", "append:daily", "transform:daily"}
    assert not b.folder.joinpath("odfbuild.lock").exists()
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2]
    assert b.dataset("hub.acme/rates").head() == a.dataset("rates").head()
    lock = read_lock(b.folder)
    assert lock is not None
    pin = lock.inputs["hub/acme/rates"]
    assert (pin.id, pin.head) == (a.dataset("rates").id, a.dataset("rates").head())


def test_only_ids_go_into_chains(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    state = b.dataset("daily").state()
    assert state is not None
    assert state.transform is not None
    (given,) = state.transform.inputs
    assert (given.dataset_ref, given.alias) == (a.dataset("rates").id, "rates")


def test_a_plan_after_an_apply_asks_no_repository(teams: Teams) -> None:
    _, b = teams
    assert b.run("apply", "-y").code == 0
    shutil.rmtree(b.hub)
    done = b.run("plan")
    assert done.code == 0
    assert "1 input to check" in done.out
    assert "No changes." in done.out
    assert b.run("plan", "--offline").out.startswith("No changes.")


def test_what_was_found_once_is_not_looked_up_again(teams: Teams) -> None:
    _, b = teams
    first = b.run("plan")
    shutil.rmtree(b.hub)
    assert b.run("plan") == first


def test_a_correction_is_taken_in_by_the_next_apply(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    a.add("2.csv", "2024-01-01,z,30", "2024-01-02,x,4")
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2, 30, 4]
    assert b.run("apply", "-y").out.startswith("No changes.")


def test_a_project_that_was_checked_out_anew_pulls_what_is_pinned(teams: Teams) -> None:
    _, b = teams
    assert b.run("apply", "-y").code == 0
    shutil.rmtree(b.folder / ".odfbuild")
    assert b.run("plan", "--offline").code == 1
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2]


def test_a_saved_plan_pulls_what_it_says_and_no_more(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    a.add("2.csv", "2024-01-02,x,3")
    assert b.run("plan", "--out", "saved.json").code == 0
    planned = a.dataset("rates").head()
    a.add("3.csv", "2024-01-03,x,4")
    assert b.run("apply", "saved.json").code == 0
    assert b.dataset("hub.acme/rates").head() == planned
    assert b.values("daily") == [1, 2, 3]


def test_a_plan_that_looked_at_nothing_pulls_nothing(teams: Teams) -> None:
    _, b = teams
    assert b.run("apply", "-y").code == 0
    done = b.run("plan", "-o", "json")
    (b.folder / "saved.json").write_text(done.out, "utf-8")
    done = b.run("apply", "saved.json", "-y")
    assert done.code != 0
    assert "unasked-repository" in done.err


# what is refused


@pytest.mark.parametrize("wrong", ["defaults: {nowhere: {tags: [x]}}", "selectors: 1", "moved: {"])
def test_a_fault_elsewhere_in_the_settings_hides_no_repository(teams: Teams, wrong: str) -> None:
    _, b = teams
    b.write("odfbuild.yaml", f"{(b.folder / 'odfbuild.yaml').read_text('utf-8')}{wrong}\n")
    done = b.run("plan")
    assert done.code == 1
    assert "unknown-repository" not in done.err


def test_a_repository_that_no_settings_name_is_named_beside_other_faults(teams: Teams) -> None:
    _, b = teams
    b.write("odfbuild.yaml", "odfbuild: 1\nname: b\ndefaults: {nowhere: {tags: [x]}}\n")
    assert "there is no repository named 'hub'" in b.run("plan").err


def test_a_definition_without_a_name_is_that_of_no_input(teams: Teams) -> None:
    _, b = teams
    assert b.run("apply", "-y").code == 0
    b.write("datasets/other.yaml", "kind: [\n")
    done = b.run("plan")
    assert done.code == 1
    assert "input-left-out" not in done.out


def test_a_breaking_change_is_stopped_at_the_gate_of_its_readers(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    before = b.dataset("hub.acme/rates").head()
    a.write("datasets/rates.yaml", RATES.replace("          - v BIGINT\n", ""))
    a.add("2.csv", "2024-01-02,x,3")
    done = b.run("apply", "-y")
    assert done.code == 3
    assert "ODF305" in done.out
    assert "v is no longer produced by hub.acme/rates" in done.out
    assert b.dataset("hub.acme/rates").head() == before
    assert b.run("apply", "-y", "--offline").code == 0
    assert b.run("apply", "-y", "--allow", "ODF305").code == 0
    assert b.dataset("hub.acme/rates").head() == a.dataset("rates").head()


@pytest.mark.parametrize(
    "query", ["select t, k, v from rates", "select * from rates"], ids=["named", "star"]
)
@pytest.mark.parametrize("rows", [(), ("2024-01-02,x,3",)], ids=["no rows", "rows"])
@pytest.mark.parametrize(
    "before",
    [(), ("plan",), ("pull",), ("plan", "pull"), ("pull", "plan"), ("pull", "apply -y", "plan")],
    ids=lambda steps: " then ".join(steps) or "nothing",
)
def test_who_brought_a_change_does_not_matter_to_the_gate(
    teams: Teams, before: tuple[str, ...], rows: tuple[str, ...], query: str
) -> None:
    a, b = teams
    b.write("datasets/daily.yaml", DAILY.replace("select t, k, v from rates", query))
    assert b.run("apply", "-y").code == 0
    a.write("datasets/rates.yaml", RATES.replace("          - v BIGINT\n", ""))
    if rows:
        a.add("2.csv", *rows)
    else:
        assert a.run("apply", "-y", "--gate", "off").code == 0
        a.publish("rates", "acme/rates")
    for step in before:
        b.run(*step.split())
    code = "ODF307" if "*" in query else "ODF305"
    done = b.run("apply", "-y")
    assert done.code == 3, done
    assert code in done.out
    planned = b.run("plan")
    assert code in planned.out
    assert len(b.rows("daily")) == 2
    b.write(
        "datasets/daily.yaml", DAILY.replace("select t, k, v from rates", "select t, k from rates")
    )
    assert code not in b.run("plan").out


@pytest.mark.parametrize(
    "query", ["select t, k, v from rates", "select * from rates"], ids=["named", "star"]
)
@pytest.mark.parametrize("rows", [(), ("2024-01-02,x,3",)], ids=["no rows", "rows"])
def test_a_change_that_a_pull_brought_is_said_until_it_is_accepted_once(
    teams: Teams, rows: tuple[str, ...], query: str
) -> None:
    a, b = teams
    b.write("datasets/daily.yaml", DAILY.replace("select t, k, v from rates", query))
    b.write("datasets/days.yaml", DAILY.replace("daily", "days").replace("t, k, v", "t"))
    assert b.run("apply", "-y").code == 0
    a.write("datasets/rates.yaml", RATES.replace("          - v BIGINT\n", ""))
    if rows:
        a.add("2.csv", *rows)
    else:
        assert a.run("apply", "-y", "--gate", "off").code == 0
        a.publish("rates", "acme/rates")
    code = "ODF307" if "*" in query else "ODF305"

    def said(*command: str) -> tuple[bool, int]:
        done = b.run(*command)
        text = done.out + done.err
        assert f"warning[{code}]: days" not in text
        return f"warning[{code}]: daily: v " in text, done.code

    assert said("pull", "--dry-run") == (False, 0)
    for command in ("pull", "pull", "check", "status"):
        assert said(command) == (True, 0), command
    listed = {each["dataset"]: each for each in json.loads(b.run("status", "-o", "json").out)}
    assert {one["code"] for one in listed["daily"]["changed_inputs"]} == {code}
    assert listed["days"]["changed_inputs"] == []
    assert b.run("apply", "-y").code == 3
    assert said("status") == (True, 0)
    assert b.run("apply", "-y", "--allow", code).code == 0
    for command in ("pull", "check", "status"):
        assert said(command) == (False, 0), command
    assert b.run("apply", "-y").code == 0


def test_a_run_pulls_what_an_apply_pulls_unless_it_is_offline(teams: Teams) -> None:
    a, b = teams
    assert b.run("run").code == 0
    assert b.workspace.open(DatasetAlias.parse("hub.acme/rates")) is None, "nothing reads it yet"
    assert b.run("apply", "-y").code == 0
    a.add("2.csv", "2024-01-02,x,3")
    assert b.run("run", "--offline").code == 0
    assert b.values("daily") == [1, 2]
    assert b.run("run").code == 0
    assert b.values("daily") == [1, 2, 3]
    assert "Nothing to run" in b.run("run").out
    a.add("3.csv", "2024-01-03,x,4")
    b.write("datasets/other.yaml", DAILY.replace("daily", "other"))
    assert b.run("run", "daily").code == 0
    assert b.values("daily") == [1, 2, 3, 4]
    shutil.rmtree(b.hub)
    done = b.run("run")
    assert done.code == 1
    assert "no-remote-dataset" in done.err
    assert b.run("run", "--offline").code == 0


def test_a_run_leaves_out_whom_a_change_of_an_input_breaks(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    before = b.dataset("hub.acme/rates").head()
    a.write("datasets/rates.yaml", RATES.replace("          - v BIGINT\n", ""))
    a.add("2.csv", "2024-01-02,x,3")
    done = b.run("run")
    assert done.code == 1
    assert "error[ODF305]: daily: v is no longer" in done.err
    assert b.dataset("hub.acme/rates").head() == before
    assert b.run("pull").code == 0
    for offline in ((), ("--offline",)):
        done = b.run("run", *offline)
        assert done.code == 1
        assert "error[ODF305]: daily: v is no longer" in done.err
        assert len(b.rows("daily")) == 2
    b.run("accept", "ODF305", "daily", "--column", "v")
    assert b.run("run").code == 0
    assert len(b.rows("daily")) == 3


def test_a_change_that_is_accepted_is_judged_anew_when_another_comes(teams: Teams) -> None:
    a, b = teams
    wider = RATES.replace("          - v BIGINT\n", "          - v BIGINT\n          - w BIGINT\n")
    a.write("datasets/rates.yaml", wider)
    shutil.rmtree(a.folder / ".odfbuild")
    a.add("1.csv", "2024-01-01,x,1,9", header="t,k,v,w")
    b.write("datasets/daily.yaml", DAILY.replace("t, k, v", "t, k, v, w"))
    assert (done := b.run("apply", "-y")).code == 0, done
    for gone in ("          - v BIGINT\n", "          - w BIGINT\n"):
        text = (a.folder / "datasets/rates.yaml").read_text("utf-8")
        a.write("datasets/rates.yaml", text.replace(gone, ""))
        assert a.run("apply", "-y", "--gate", "off").code == 0
        a.publish("rates", "acme/rates")
        assert b.run("apply", "-y").code == 3
        assert b.run("apply", "-y", "--allow", "ODF305").code == 0
        assert b.run("apply", "-y").code == 0


def test_a_plan_that_was_refused_passes_once_the_change_is_accepted(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    a.write("datasets/rates.yaml", RATES.replace("          - v BIGINT\n", ""))
    assert a.run("apply", "-y", "--gate", "off").code == 0
    a.publish("rates", "acme/rates")
    assert b.run("pull").code == 0
    for _ in range(2):
        assert b.run("plan").code == 3
    assert b.run("apply", "-y", "--allow", "ODF305").code == 0
    for _ in range(2):
        assert b.run("plan").code == 0


def test_a_column_more_breaks_nobody(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    wider = RATES.replace("          - v BIGINT\n", "          - v BIGINT\n          - w BIGINT\n")
    a.write("datasets/rates.yaml", wider)
    a.add("2.csv", "2024-01-02,x,3,9", header="t,k,v,w")
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2, 3]


def test_a_name_that_leads_to_another_dataset_is_refused(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    shutil.rmtree(a.folder / ".odfbuild")
    a.add("2.csv", "2024-01-02,x,3")
    done = b.run("apply", "-y")
    assert done.code == 1
    assert f"error[{OtherDatasetError.code}]" in done.err
    assert b.values("daily") == [1, 2]
    done = b.run("lock", "--repin", "hub/acme/rates")
    assert done.code == 0, done.err
    lock = read_lock(b.folder)
    assert lock is not None
    assert lock.inputs["hub/acme/rates"].id == a.dataset("rates").id
    said = json.loads(b.run("plan", "--refresh", "all", "-o", "json").out)
    pulls = [step["target"] for step in said["steps"] if step["work"] == "pull"]
    assert pulls == [f"hub.acme/rates-{a.dataset('rates').id.key.hex()[:8]}"]


def test_a_forged_folder_is_caught(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    before = b.dataset("hub.acme/rates").head()
    a.add("2.csv", "2024-01-02,x,3")
    forged = next(iter(sorted((a.hub / "acme/rates/data").iterdir())))
    for path in (a.hub / "acme/rates/data").iterdir():
        path.write_bytes(path.read_bytes()[::-1])
    done = b.run("apply", "-y")
    assert done.code == 1
    assert "broken-source" in done.err
    assert forged.name
    assert b.dataset("hub.acme/rates").head() == before
    assert b.values("daily") == [1, 2]


def test_a_changed_block_is_caught_by_the_plan(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    a.add("2.csv", "2024-01-02,x,3")
    head = a.hub / "acme/rates/blocks" / str(a.dataset("rates").head())
    head.write_bytes(head.read_bytes()[::-1])
    done = b.run("plan", "--refresh", "all")
    assert done.code == 1
    assert "broken-source" in done.out


def test_a_repository_that_was_set_back_is_refused(teams: Teams) -> None:
    a, b = teams
    shutil.copytree(a.hub, a.folder / "older")
    a.add("2.csv", "2024-01-02,x,3")
    assert b.run("apply", "-y").code == 0
    shutil.rmtree(a.hub)
    (a.folder / "older").rename(a.hub)
    done = b.run("apply", "-y")
    assert done.code == 1
    assert f"error[{RemoteBehindError.code}]" in done.err
    assert b.run("apply", "-y", "--offline").code == 0
    shutil.rmtree(b.folder / ".odfbuild")  # of a new checkout the lock file knows
    done = b.run("apply", "-y")
    assert done.code == 1
    assert "odfbuild.lock pins" in done.err


def test_a_repository_with_another_history_is_refused(teams: Teams) -> None:
    a, b = teams
    a.add("2.csv", "2024-01-02,x,3")
    assert b.run("apply", "-y").code == 0
    assert a.run("reset", "rates", "--sequence", "4", "-y").code == 0
    a.add("3.csv", "2024-01-03,x,4")
    done = b.run("apply", "-y")
    assert done.code == 1
    assert f"error[{RemoteDivergedError.code}]" in done.err
    for command in ("pull hub/acme/rates --force", "lock --repin hub/acme/rates"):
        assert command in done.err
        answer = ["-y"] if "--force" in command else []
        assert (made := b.run(*command.split(), *answer)).code == 0, made
    assert (made := b.run("rebuild", "daily", "-y")).code == 0, made
    assert b.values("daily")[:2] == [1, 2]
    assert b.run("apply", "-y").out.startswith("No changes.")


@pytest.mark.parametrize("goes_on", [False, True], ids=["undone", "undone and went on"])
def test_history_that_its_owner_signed_away_is_said_and_followed_as_advised(
    teams: Teams, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, goes_on: bool
) -> None:
    a, b = teams

    def run(team: Team, *command: str) -> Done:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"state-{team.folder.name}"))
        return team.run(*command)

    a.add("2.csv", "2024-01-02,x,3")
    shutil.rmtree(a.hub)
    assert run(a, "push", "rates", "--to", "hub/acme/rates").code == 0
    assert run(b, "apply", "-y").code == 0
    assert run(a, "reset", "rates", "--sequence", "4", "-y").code == 0
    if goes_on:
        (a.folder / "data/2.csv").unlink()
        for number in (3, 4):
            a.write(f"data/{number}.csv", f"t,k,v\n2024-01-0{number},x,{number}\n")
            assert run(a, "apply", "-y").code == 0
    assert run(a, "push", "rates", "--force", "-y").code == 0
    done = run(b, "apply", "-y")
    assert done.code == 1
    assert f"error[{HistoryGivenUpError.code}]: daily: hub/acme/rates: the owner signed" in done.err
    for command in ("pull hub/acme/rates", "lock --repin hub/acme/rates"):
        assert command in done.err
        assert (made := run(b, *command.split())).code == 0, made
    assert b.dataset("hub.acme/rates").head() == a.dataset("rates").head()
    assert (made := run(b, "rebuild", "daily", "-y")).code == 0, made
    assert b.values("daily") == ([1, 2, 3, 4] if goes_on else [1, 2])
    assert run(b, "apply", "-y").out.startswith("No changes.")


def test_a_dataset_that_a_repository_lacks_bars_its_readers_alone(teams: Teams) -> None:
    _, b = teams
    b.write("datasets/other.yaml", DAILY.replace("daily", "other").replace("acme", "nobody"))
    done = b.run("apply", "-y")
    assert done.code == 4
    assert "no-remote-dataset" in done.err
    assert "datasets/other.yaml:9:23" in done.err
    assert b.values("daily") == [1, 2]


def test_a_repository_that_nobody_knows_is_refused_where_it_is_named(teams: Teams) -> None:
    _, b = teams
    declare = "or say where it is: repositories: {%s: URL} in odfbuild.yaml"
    for name, fix in {"hubb": "did you mean 'hub'?", "store": "use one of: hub"}.items():
        b.write("datasets/daily.yaml", DAILY.replace("hub/", f"{name}/"))
        done = b.run("check")
        assert "datasets/daily.yaml:9:23: error[unknown-repository]" in done.out + done.err
        assert f"fix: {fix}, {declare % name}" in done.out + done.err


def test_a_definition_that_takes_the_name_of_an_input_is_refused(teams: Teams) -> None:
    _, b = teams
    b.write("datasets/mine.yaml", RATES.replace("name: rates", "name: hub.acme/rates"))
    done = b.run("check")
    assert "ambiguous-input" in done.out + done.err


# what breaks off


@pytest.mark.parametrize("part", ["data", "blocks"])
def test_a_pull_that_fails_leaves_the_old_head_and_its_readers_undone(
    teams: Teams, part: str
) -> None:
    a, b = teams
    b.write("datasets/mine.yaml", RATES.replace("name: rates", "name: mine"))
    b.write("data/1.csv", "t,k,v\n2024-01-01,m,7\n")
    assert b.run("apply", "-y").code == 0
    before = b.dataset("hub.acme/rates").head()
    a.add("2.csv", "2024-01-02,x,3")
    assert b.run("plan", "--out", "saved.json").code == 0
    b.write("data/2.csv", "t,k,v\n2024-01-02,m,8\n")
    shutil.rmtree(a.hub / "acme/rates" / part)
    done = b.run("apply", "saved.json")
    assert done.code != 0
    assert "pull:hub.acme/rates" in done.err
    assert "transform:daily" in done.err
    assert b.dataset("hub.acme/rates").head() == before
    assert b.values("daily") == [1, 2]
    a.publish("rates", "acme/rates")
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2, 3]
    assert sorted(map(str, b.values("mine"))) == ["7", "8"]


@pytest.mark.parametrize("at", range(1, 60, 7))
def test_a_process_that_ends_at_any_write_leaves_the_old_head_or_the_new_one(
    teams: Teams, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    heads = {a.dataset("rates").head()}
    a.add("2.csv", "2024-01-02,x,3")
    heads.add(a.dataset("rates").head())
    left = [at]
    renamed = Disk.rename

    def rename(disk: Disk, old: Path, new: Path) -> None:
        left[0] -= 1
        if left[0] <= 0 and "datasets" in new.parts:
            raise OSError(5, "the machine stops here", str(new))
        renamed(disk, old, new)

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "rename", rename)
        b.run("apply", "-y")
    assert b.dataset("hub.acme/rates").head() in heads
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2, 3]
    assert b.run("verify").code == 0


# what other commands say


def test_an_input_of_a_repository_is_neither_stray_nor_drift(teams: Teams) -> None:
    _, b = teams
    assert b.run("apply", "-y").code == 0
    assert "unmanaged" not in b.run("plan").out
    assert b.run("drift").code == 0
    assert b.run("retire", "hub.acme/rates", "-y").code == 1
    assert "hub/acme/rates" in b.run("explain", "hub.acme/rates").out
    assert "daily" in b.run("impact", "hub.acme/rates").out
    assert "hub.acme/rates" in b.run("lineage", "daily").out
    assert "hub.acme/rates" in b.run("status").out


def test_a_selection_takes_its_inputs_of_repositories_along(teams: Teams) -> None:
    _, b = teams
    b.write("datasets/other.yaml", DAILY.replace("daily", "other"))
    assert b.run("apply", "-y", "daily").code == 0
    assert b.values("daily") == [1, 2]
    assert b.workspace.open(DatasetAlias(None, "other")) is None


def test_lock_pins_inputs_and_says_which_are_not(teams: Teams) -> None:
    a, b = teams
    done = b.run("lock", "--check")
    assert done.code == 3
    assert "+ hub/acme/rates: not pinned" in done.out
    assert b.run("lock").code == 0
    pinned = (b.folder / "odfbuild.lock").read_text("utf-8")
    a.add("2.csv", "2024-01-02,x,3")
    assert b.run("lock").code == 0
    assert (b.folder / "odfbuild.lock").read_text("utf-8") == pinned
    assert b.run("lock", "--check").code == 0
    assert b.run("lock", "--repin", "hub/acme/rates").code == 0
    assert str(a.dataset("rates").head()) in (b.folder / "odfbuild.lock").read_text("utf-8")
    b.write("datasets/daily.yaml", RATES)
    assert "- hub/acme/rates: no definition reads it" in b.run("lock").out


def test_an_input_that_a_killed_run_pulled_is_pinned_by_the_next_apply_and_named_until_then(
    teams: Teams,
) -> None:
    _, b = teams
    lock = b.folder / "odfbuild.lock"
    assert b.run("apply", "-y").code == 0
    pinned = lock.read_text("utf-8")
    for command in ("apply -y", "run"):
        lock.unlink()  # as if it had been killed before that was written
        for _ in range(2):
            done = b.run("plan")
            assert done.code == 0
            assert "not-pinned]: odfbuild.lock does not pin hub/acme/rates" in done.out + done.err
            assert not lock.exists()
        done = b.run(*command.split())
        assert done.code == 0
        assert "not-pinned" not in done.out + done.err
        assert lock.read_text("utf-8") == pinned
        assert "No changes." in (after := b.run("plan")).out
        assert "not-pinned" not in after.out + after.err


def test_an_input_is_pinned_as_soon_as_it_was_pulled(
    teams: Teams, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, b = teams
    with monkeypatch.context() as patch:
        patch.setattr("odfbuild.app.apply_plan._run_and_record", _cut_off_after_pulls)
        assert b.run("apply", "-y").code != 0
    assert b.workspace.open(DatasetAlias.parse("daily")) is None
    lock = read_lock(b.folder)
    assert lock is not None
    assert list(lock.inputs) == ["hub/acme/rates"]


def _cut_off_after_pulls(project: Opened, plan: Plan, *_: object) -> None:
    for step in plan.steps:
        if isinstance(step.work, Pull):
            pull_input(project, step.work, step.target)
    raise OSError("killed")


def test_a_url_names_an_input(teams: Teams) -> None:
    a, b = teams
    url = f"{(a.hub / 'acme/rates').as_uri()}/"
    b.write("datasets/daily.yaml", DAILY.replace("hub/acme/rates", url))
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2]
    lock = read_lock(b.folder)
    assert lock is not None
    assert list(lock.inputs) == [url]


def test_a_repository_is_read_over_the_web(teams: Teams) -> None:
    a, b = teams
    with served(a.hub) as place:
        url = place.source().place
        b.write("odfbuild.yaml", f"odfbuild: 1\nname: b\nrepositories:\n  hub: {{url: '{url}'}}\n")
        assert b.run("apply", "-y").code == 0
        a.add("2.csv", "2024-01-02,x,3")
        assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2, 3]
    done = b.run("apply", "-y")
    assert done.code == 1
    assert "unreachable-repository" in done.err
    assert b.run("plan").code == 0


def test_a_saved_plan_asks_the_repository_that_it_names_and_no_other(teams: Teams) -> None:
    a, b = teams
    settings = "odfbuild: 1\nname: b\nrepositories:\n  Hub: {url: '%s'}\n"
    with served(a.hub) as place, socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        url = place.source().place
        b.write("odfbuild.yaml", settings % url)
        done = b.run("plan", "--out", "saved.json")
        assert f"repository  Hub: {url}" in done.out
        b.write("odfbuild.yaml", settings % f"http://127.0.0.1:{other.getsockname()[1]}/")
        done = b.run("apply", "saved.json")
        assert (done.code, "stale-plan" in done.err) == (5, True)
        with pytest.raises(BlockingIOError):
            other.accept()
        b.write("odfbuild.yaml", settings % url)
        assert b.run("apply", "saved.json").code == 0
    assert b.values("daily") == [1, 2]


def test_pulls_count_for_the_pool_of_their_repository(teams: Teams) -> None:
    a, b = teams
    a.publish("rates", "acme/other")
    b.write("datasets/more.yaml", DAILY.replace("daily", "more").replace("/rates", "/other"))
    project = open_project(b.folder)
    settings = run_settings_of(project, ["hub=1"])
    rates, other, daily = map(DatasetAlias.parse, ("hub.acme/rates", "hub.acme/other", "daily"))
    assert not settings.has_room(other, [rates])
    assert settings.has_room(other, [daily])
    assert run_settings_of(project, ["hub=2"]).has_room(other, [rates])
    refused = b.run("apply", "-y", "--pool", "hug=1")
    assert refused.code != 0
    assert "did you mean 'hub'?" in refused.err


def test_an_undone_pull_is_made_again(teams: Teams) -> None:
    a, b = teams
    assert b.run("apply", "-y").code == 0
    before = b.chain("hub.acme/rates")
    a.add("2.csv", "2024-01-02,x,3")
    assert b.run("apply", "-y").code == 0
    assert b.run("undo", "last", "-y").code == 0
    assert b.chain("hub.acme/rates") == before
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2, 3]


def test_an_id_names_an_input_that_a_repository_has(teams: Teams) -> None:
    a, b = teams
    ref = str(a.dataset("rates").id)
    b.write(
        "datasets/daily.yaml",
        DAILY.replace("datasetRef: hub/acme/rates", f"datasetRef: {ref}\n          alias: rates"),
    )
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2]
    a.add("2.csv", "2024-01-02,x,3")
    assert b.run("apply", "-y").code == 0
    assert b.values("daily") == [1, 2, 3]


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_what_a_plan_says_is_pulled_is_what_an_apply_pulls(
    teams: Teams, batches: list[int]
) -> None:
    a, b = teams
    for number, rows in enumerate(batches):
        file = f"{secrets.token_hex(4)}-{number}.csv"
        for row in range(rows):
            a.add(
                f"{len(list((a.folder / 'data').iterdir())):04}-{file}",
                f"2025-01-{row + 1:02},{file},1",
            )
        if rows:
            b.run("plan", "--refresh", "all")
    planned = b.plan("--refresh", "all")
    before = b.chain("hub.acme/rates")
    assert b.run("apply", "-y").code == 0
    after = b.chain("hub.acme/rates")
    said = [step for step in planned.document["steps"] if step["work"] == "pull"]
    if not said:
        assert after == before
        return
    (step,) = said
    assert step["new_head"] == after[-1][0]
    assert after[: len(before)] == before
    assert step["blocks"] == len(after) - len(before)
    assert step["records"] == sum(rows for _, rows, _ in after[len(before) :])
    assert step["bytes"] == sum(size for _, _, size in after[len(before) :])


# in Spark


@pytest.mark.spark
def test_spark_reads_what_was_pulled_and_corrects_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub"
    shared = f"repositories:\n  hub: {{url: '{hub.as_uri()}/'}}\n"
    for name in ("a", "b"):
        (tmp_path / name / "datasets").mkdir(parents=True)
        (tmp_path / name / "odfbuild.yaml").write_text(f"odfbuild: 1\nname: {name}\n{shared}")
    a, b = (Within(tmp_path / name, capsys, monkeypatch) for name in ("a", "b"))
    (a.folder / "data").mkdir()
    (a.folder / "datasets/rates.yaml").write_text(RATES, "utf-8")
    (b.folder / "datasets/totals.yaml").write_text(TOTALS, "utf-8")
    for number, rows in enumerate(("2024-01-01,x,1\n2024-01-01,y,2", "2024-01-01,z,40")):
        (a.folder / f"data/{number}.csv").write_text(f"t,k,v\n{rows}\n", "utf-8")
        assert a("apply", "-y").code == 0
        assert a("push", "rates", "--to", "hub/acme/rates").code == 0
        done = b("apply", "-y")
        assert done.code == 0, done
    shown = b("sql", "select day, total from totals", "-o", "csv")
    assert shown.out.splitlines()[1:] == ["2024-01-01,43"]
