"""Queries of strangers through the commands: wherever a text comes from, it gets nothing."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import SetTransform
from tests.hostile import CANARY, CANARY_NAME
from tests.support.data.forger import Forger
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import Done
from tests.support.projects.market import dataset
from tests.support.projects.texts import GOOD, derivative, root

pytestmark = pytest.mark.spark

CALL = f"('java.lang.System', 'getenv', '{CANARY_NAME}')"
QUERIES = {
    "a program": "select transform(t, k, v) using 'touch {mark}' as (t date, k string, v bigint) "
    "from {table}",
    "a method": f"select t, reflect{CALL} as k, v from {{table}}",
    "a method by another name": f"select t, `JAVA_method`{CALL} as k, v from {{table}}",
    "a method by a text": f"select t, identifier('refl' || 'ect'){CALL} as k, v from {{table}}",
    "a file": "select t, value as k, v from {table} join text.`{file}` on true",
    "files": "select t, k, v from {table}, read_files('{file}')",
    "the clock": "select cast(concat('to', 'day') as date) as t, k, v from {table}",
    "the clock by name": "select current_date as t, k, v from {table}",
    "a worked-out type": "select t, from_json(k, concat('a', ' INT')).a as k, v from {table}",
    "the environment": f"select t, '${{env:{CANARY_NAME}}}' as k, v from {{table}}",
}
MORE = ("a method by another name", "a method by a text", "a file", "the clock by name")
ALLOWED = {("the clock by name", each) for each in ("sql", "a check", "preprocess")}
"""What runs, as nobody has to get the same rows again."""

Ask = Callable[[Inside, str], Done]


class Kept:
    """An engine that those who use it do not close."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def built(engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a project with a root and a derivative, which have rows, and a secret beside."""
    folder = tmp_path_factory.mktemp("built")
    project = lay_out(folder / "project", {
        "odfbuild.yaml": "odfbuild: 1\nname: ours\n",
        "datasets/src.yaml": root(),
        "datasets/out.yaml": derivative(),
        "data/1.csv": GOOD,
    })  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "odfbuild.executors.engine.spark.engine.SparkEngine", lambda *_, **__: Kept(engine)
        )
        from odfbuild import app

        opened = app.open_project(project)
        app.apply(opened, app.make(opened))
    yield project


def transform(run: Inside, text: str) -> Done:
    lay_out(run.project, {"datasets/new.yaml": derivative("new", query=quoted(text))})
    return run("apply", "--yes")


def preprocess(run: Inside, text: str) -> Done:
    columns = "t DATE NOT NULL, k STRING, v BIGINT"
    other = root("new", columns=columns, merge="{kind: Append}", query="QUERY")
    lay_out(run.project, {"datasets/new.yaml": other.replace("QUERY", quoted(text))})
    return run("apply", "--yes")


def unit_test(run: Inside, text: str) -> Done:
    row = '{t: 2024-01-01, k: "1", v: 1}'
    fixture = f"dataset: new\nbatches: [{{inputs: {{src: [{row}]}}, expect: [{row}]}}]\n"
    made = {
        "datasets/new.yaml": derivative("new", query=quoted(text)),
        "tests/unit/a.yaml": fixture,
    }
    lay_out(run.project, made)
    return run("test", "--unit")


def check(run: Inside, text: str) -> Done:
    lay_out(run.project, {"tests/data/a.yaml": of_check(text)})
    return run("test", "--data")


def gate(run: Inside, text: str) -> Done:
    lay_out(run.project, {
        "odfbuild.yaml": "odfbuild: 1\nname: ours\ngates: {data: error}\n",
        "tests/data/a.yaml": of_check(text) + "    on: new-rows\n",
        "data/2.csv": GOOD.replace("2024", "2025").replace("a", "c").replace("b", "d"),
    })  # fmt: skip
    return run("apply", "--yes")


def question(run: Inside, text: str) -> Done:
    return run("sql", text)


def replay(run: Inside, text: str) -> Done:
    forge(run.project, text)
    return run("verify", "out", "--replay")


def recompute(run: Inside, text: str) -> Done:
    forge(run.project, text)
    return run("verify", "out", "--recompute")


def explain(run: Inside, text: str) -> Done:
    forge(run.project, text)
    return run("explain-row", "out", "0")


def next_step(run: Inside, text: str) -> Done:
    """Take in their chain, whose query is one of the project from then on."""
    forge(run.project, text)
    (run.project / "datasets" / "out.yaml").unlink()
    theirs = shutil.move(
        run.project / ".odfbuild" / "datasets" / dataset(run.project, "out").id.multibase,
        run.project.parent / "theirs",
    )
    for name in (run.project / ".odfbuild" / "names").glob("out*"):
        name.unlink()
    taken = run("import", str(theirs), "--as", "out")
    lay_out(run.project, {"data/2.csv": GOOD.replace("2024", "2025")})
    done = run("run")
    return Done(done.code or taken.code, taken.out + done.out, taken.err + done.err)


CALLERS: dict[str, Ask] = {
    "a transform": transform,
    "preprocess": preprocess,
    "a unit test": unit_test,
    "a check": check,
    "a gate": gate,
    "sql": question,
    "verify --replay": replay,
    "verify --recompute": recompute,
    "explain-row": explain,
    "a chain that was imported": next_step,
}


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def of_check(text: str) -> str:
    return f"dataset: src\nchecks:\n  - sql: {quoted(text)}\n"


def forge(project: Path, text: str) -> None:
    """Put a query into the chain of `out`, which is sealed well then."""
    forger = Forger(dataset(project, "out"), project)
    number, block = next(
        (at, each) for at, each in enumerate(forger.blocks) if isinstance(each.event, SetTransform)
    )
    assert isinstance(block.event, SetTransform)
    query = replace(block.event.transform, query=text, queries=None)
    forger.forge(number, replace(block, event=replace(block.event, transform=query)))


@pytest.mark.holds("sql-callers")
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(
    "query",
    [pytest.param(each, marks=pytest.mark.slow) if each in MORE else each for each in QUERIES],
)
def test_no_command_lets_a_query_through(
    query: str,
    caller: str,
    built: Path,
    engine: SparkEngine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = shutil.copytree(built, tmp_path / "project", symlinks=True)
    (tmp_path / "file").write_text("a-secret-of-ours\n", "utf-8")
    run = Inside(project, capsys, monkeypatch, Kept(engine))
    text = QUERIES[query].replace("{mark}", str(tmp_path / "mark"))
    text = text.replace("{file}", str(tmp_path / "file"))
    done = CALLERS[caller](
        run, text.replace("{table}", "input" if caller == "preprocess" else "src")
    )
    said = done.out + done.err
    assert not (tmp_path / "mark").exists()
    assert CANARY not in said
    assert "a-secret-of-ours" not in said
    assert "Traceback" not in said
    assert "internal" not in said
    if query == "the environment":
        left = [each.read_bytes() for each in project.glob(".odfbuild/datasets/*/*/*")]
        assert not [each for each in left if CANARY.encode() in each]
    elif caller == "explain-row":
        assert "Made of rows that cannot be determined: " in said
    elif (query, caller) not in ALLOWED:
        assert done.code != 0, said
