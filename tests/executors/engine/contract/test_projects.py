"""Projects whose queries an engine elsewhere runs: settings, plan, apply, policy."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.registry import engine_of
from odfbuild.project.opened import open_project
from tests.support.projects import Done, odfbuild

ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: prices
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/*.csv}
      read: {kind: Csv, header: true, schema: [t TIMESTAMP, k STRING, v BIGINT]}
      preprocess:
        kind: Sql
        engine: duck
        query: select t as event_time, upper(k) as k, v from input
      merge: {kind: Snapshot, primaryKey: [k]}
"""
READER = """\
kind: DatasetSnapshot
version: 1
content:
  name: totals
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: prices, alias: prices}]
      transform:
        kind: Sql
        engine: duck
        version: "1.5"
        query: >-
          select max(event_time) as event_time, count(*) as n, sum(v)::bigint as s
          from prices
"""


IMAGE = f"example.org/engine@sha256:{'0' * 64}"


class Project:
    """A project of two datasets, whose commands are run in its folder."""

    def __init__(self, folder: Path, engines: str) -> None:
        self.folder, self.header = folder, "t,k,v"
        self.env = {"CI": ""}
        (folder / "datasets").mkdir()
        (folder / "data").mkdir()
        (folder / "datasets" / "prices.yaml").write_text(ROOT)
        (folder / "datasets" / "totals.yaml").write_text(READER)
        self.settings(engines)
        self.rows("1.csv", "a,1", "b,2")

    def settings(self, engines: str) -> None:
        text = f"odfbuild: 1\nengine: {{ingest: arrow}}\n{engines}\n"
        (self.folder / "odfbuild.yaml").write_text(text)

    def rows(self, name: str, *rows: str) -> None:
        lines = [f"2020-01-0{number + 1}T00:00:00Z,{row}" for number, row in enumerate(rows)]
        (self.folder / "data" / name).write_text("\n".join([self.header, *lines]) + "\n")

    def __call__(self, *arguments: str, **more: str) -> Done:
        return odfbuild(*arguments, cwd=self.folder, **{**self.env, **more})

    def check_steps(self) -> None:
        """Check that the dataset is made, corrected by new rows, and then at rest."""
        done = self("apply", "--yes")
        assert done.code == 0, done.err
        assert self.standing() == [{"n": 2, "s": 3}]
        self.rows("2.csv", "a,10", "c,5")
        assert self("apply", "--yes").code == 0
        assert self.standing() == [{"n": 2, "s": 15}]
        assert "No changes" in self("plan").out

    def standing(self) -> list[dict[str, object]]:
        question = ("sql", "--engine", "datafusion", "select n, s from totals")
        done = self(*question, "-o", "ndjson")
        assert done.code == 0, done.err
        return [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture
def project(tmp_path: Path, address: str) -> Project:
    return Project(tmp_path, f"engines: {{duck: {{address: '{address}'}}}}")


def test_a_dataset_is_made_and_corrected_by_an_engine_elsewhere(project: Project) -> None:
    assert project("check").code == 0
    project.check_steps()
    block = project("inspect", "query", "totals").out
    assert "duck" in block
    assert "1.5" in block
    verified = project("verify", "--replay")
    assert verified.code == 0
    assert "its engine is duck" in verified.out


@pytest.mark.parametrize("source", ["with a preprocess", "as it is"])
@pytest.mark.parametrize("built", ["at once", "after its input"])
def test_a_dataset_is_made_and_changed_whatever_is_known_of_its_input(
    project: Project, address: str, source: str, built: str
) -> None:
    """The columns of an input may be known before the query runs; those of the result are not."""
    restate = "defaults: {'total*': {on_query_change: restate}}"
    project.settings(f"engines: {{duck: {{address: '{address}'}}}}\n{restate}")
    datasets = project.folder / "datasets"
    if source == "as it is":
        plain = ROOT.replace("t TIMESTAMP", "event_time TIMESTAMP").split("      preprocess:")
        merge = plain[1][plain[1].index("      merge:") :]
        (datasets / "prices.yaml").write_text(plain[0] + merge)
        project.header = "event_time,k,v"
        project.rows("1.csv", "a,1", "b,2")
    if built == "after its input":
        (datasets / "totals.yaml").unlink()
        assert project("apply", "--yes").code == 0
        (datasets / "totals.yaml").write_text(READER)
    done = project("apply", "--yes")
    assert done.code == 0, done.err
    assert project.standing() == [{"n": 2, "s": 3}]
    (datasets / "totals.yaml").write_text(READER.replace("sum(v)", "max(v)"))
    done = project("apply", "--yes", "--gate", "off")
    assert done.code == 0, done.err
    assert project.standing() == [{"n": 2, "s": 2}]
    (datasets / "totals.yaml").write_text(READER.replace("sum(v)::bigint", "'x'"))
    done = project("apply", "--yes", "--gate", "off")
    assert done.code != 0
    assert "fix:" in done.err + done.out
    assert project.standing() == [{"n": 2, "s": 2}]


def test_a_plan_names_the_address_and_asks_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path, "engines: {duck: {address: '127.0.0.1:1'}}")
    done = project("plan", "-o", "json")
    assert done.code == 0, done.err
    outside = json.loads(done.out)["outside"]
    assert [each["name"] for each in outside if each["kind"] == "engine"] == ["127.0.0.1:1"]
    assert "whole (the dialect of duck)" in project("plan").out
    assert project("lock").code == 0


def test_an_engine_that_is_not_there_fails_the_step_by_name_and_the_next_run_goes_on(
    tmp_path: Path, address: str
) -> None:
    project = Project(tmp_path, "engines: {duck: {address: '127.0.0.1:1'}}")
    done = project("apply", "--yes")
    assert done.code != 0
    assert "engine-unreachable" in done.err + done.out
    assert "Traceback" not in done.err
    project.settings(f"engines: {{duck: {{address: '{address}'}}}}")
    assert project("apply", "--yes").code == 0
    assert project.standing() == [{"n": 2, "s": 3}]


def test_where_the_engine_sees_the_workspace_can_be_said(tmp_path: Path, address: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").symlink_to(tmp_path / "project" / ".odfbuild")
    mounted = f"mounted: '{tmp_path / 'elsewhere'}'"
    project = Project(
        tmp_path / "project", f"engines: {{duck: {{address: '{address}', {mounted}}}}}"
    )
    assert project("apply", "--yes").code == 0
    assert project.standing() == [{"n": 2, "s": 3}]
    project.settings(f"engines: {{duck: {{address: '{address}', mounted: /nowhere}}}}")
    project.rows("2.csv", "a,10")
    done = project("apply", "--yes")
    assert done.code != 0
    assert "duck at" in done.err + done.out


def test_a_query_of_an_engine_that_is_no_longer_named_is_run_by_no_other(
    project: Project,
) -> None:
    assert project("apply", "--yes").code == 0
    opened = open_project(project.folder)
    plain = replace(opened, config=replace(opened.config, engines={}))
    query = SimpleNamespace(transform=SimpleNamespace(engine="duck"))
    work: Any = SimpleNamespace(query=query)
    with engine_of(plain) as engines, pytest.raises(EngineFailedError, match="not installed"):
        engines.transform(work)


@pytest.mark.holds("engine-addresses")
@pytest.mark.parametrize(
    ("address", "ci"),
    [("127.0.0.1:1", "true"), ("engine.example:5544", ""), ("127.0.0.1.example:1", "")],
)
def test_an_address_that_the_policy_does_not_name_is_not_asked(
    tmp_path: Path, address: str, ci: str
) -> None:
    project = Project(tmp_path, f"engines: {{duck: {{address: '{address}'}}}}")
    done = project("apply", "--yes", CI=ci)
    assert done.code != 0
    assert "engine-not-permitted" in done.err + done.out
    assert "odfbuild.yaml:3:" in done.err + done.out


@pytest.mark.holds("engine-addresses")
def test_a_policy_names_addresses_and_no_proxy_is_asked(
    project: Project, tmp_path: Path, address: str
) -> None:
    policy = tmp_path.with_name(f"{tmp_path.name}-policy.yaml")
    policy.write_text(f"odfbuild_policy: 1\nengines: ['{address}']\n")
    more = {"ODFBUILD_POLICY": str(policy), "http_proxy": "http://127.0.0.1:1", "CI": "true"}
    done = project("apply", "--yes", **more)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        ("engines: {spark: {address: '127.0.0.1:1'}}", "is an engine of odfbuild itself"),
        ("engines: {auto: {address: '127.0.0.1:1'}}", "is an engine of odfbuild itself"),
        ("engines: {Duck: {address: '127.0.0.1:1'}}", "is not a name of an engine"),
        ("engines: {duck: {}}", "does not give 'address'"),
        ("engines: {duck: {address: '127.0.0.1'}}", "is not the address of an engine"),
        ("engines: {duck: {address: '127.0.0.1:99999'}}", "is not the address of an engine"),
        ("engines: {duck: {address: 'unix:///run/x:1'}}", "is not the address of an engine"),
        ("engines: {duck: {address: 'h:1', limit: soon}}", "is not a length of time"),
        ("engines: {duck: {address: 'h:1', mounted: here}}", "is not an absolute path"),
        ("engines: {duck: {address: 'h:1', images: x}}", "unknown key 'images'"),
        (f"engines: {{duck: {{address: 'h:1', image: '{IMAGE}'}}}}", "has 'address' and 'image'"),
        (f"engines: {{duck: {{command: [a, '{{request}}'], image: '{IMAGE}'}}}}", "'command' and"),
        ("engines: {duck: {image: 'example.org/engine:1'}}", "by its digest"),
        ("engines: {duck: {image: 'oci-archive:/x.tar@sha256:" + "0" * 64 + "'}}", "by its digest"),
        ("engines: {duck: {image: 'oci:x@sha256:" + "0" * 64 + "'}}", "by its digest"),
        ("engines: {duck: {image: '-v@sha256:" + "0" * 64 + "'}}", "by its digest"),
        (f"engines: {{duck: {{image: '{IMAGE}', port: 0}}}}", "0 is not a port"),
        (f"engines: {{duck: {{image: '{IMAGE}', port: 70000}}}}", "70000 is not a port"),
        (f"engines: {{duck: {{image: '{IMAGE}', memory: 4}}}}", "must be a text"),
        (f"engines: {{duck: {{image: '{IMAGE}', memory: 1MB}}}}", "not a size of at least 16 MiB"),
        (f"engines: {{duck: {{image: '{IMAGE}', mounted: /w}}}}", "does not see the folder"),
        (f"engines: {{duck: {{image: '{IMAGE}', objects: 's3://b/p'}}}}", "has no objects"),
        (f"engines: {{duck: {{image: '{IMAGE}', steps: {{tags: [a]}}}}}}", "cannot carry out"),
        ("engines: {duck: {address: 'h:1', port: 5}}", "an engine without an image has no 'port'"),
        ("engines: {duck: {address: 'h:1', memory: 4GB}}", "without an image has no 'memory'"),
        ("engines: {other: {address: 'h:1'}}", "the engine 'duck' is not installed"),
        ("", "spark, datafusion; or name the address"),
    ],
)
def test_settings_that_are_wrong_are_refused(tmp_path: Path, engines: str, said: str) -> None:
    done = Project(tmp_path, engines)("check")
    assert done.code != 0
    assert said in done.err + done.out
