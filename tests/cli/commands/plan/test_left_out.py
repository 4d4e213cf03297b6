"""A definition that is wrong is left out with its readers; all others are planned and applied."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import IngestRequest
from tests.support.engines import FakeEngine
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects.texts import GOOD, derivative, root

SEEDS = [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))]


def local(name: str) -> str:
    return f"{{kind: FilesGlob, path: {name}/*.csv}}"


def circle(name: str) -> str:
    """Return two datasets that read each other, and one that reads the second."""
    there = f"{name}x"
    reader = derivative(f"{name}y", there)
    return f"{derivative(name, there)}---\n{derivative(there, name)}---\n{reader}"


WRONG: Mapping[str, Callable[[str], str]] = {
    "engine-not-installed": lambda name: derivative(name, "good", engine="flink"),
    "unknown-input": lambda name: derivative(name, "nowhere"),
    "unsupported-source": lambda name: root(name, fetch="{kind: EthereumLogs}"),
    "unknown-kind": lambda name: root(name, merge="{kind: Sometimes}"),
    "unknown-field": lambda name: root(name).replace("merge:", "marge:"),
    "duplicate-name": lambda name: f"{root(name, fetch=local(name))}---\n{root(name)}",
    "no-inputs": lambda name: (
        derivative(name).replace("- datasetRef: src", "[]").replace("          alias: src\n", "")
    ),
    "wrong-kind": lambda name: derivative(name, "good").replace("kind: Derivative", "kind: Root"),
    "cycle": circle,
    "syntax-error": lambda name: derivative(name, "good", "select t k from from src"),
    "literal-secret": lambda name: root(
        name, fetch="{kind: Url, url: 'https://example.org/x.csv?api_key=0123456789abcdef0123'}"
    ),
    "unknown-column": lambda name: derivative(name, "good", "select t, missing from src"),
}


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from odfbuild.executors.engine.spark import engine as spark

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))  # no policy is there
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())


def heads(project: Path) -> set[str]:
    names = project / ".odfbuild/names"
    return {each.name for each in names.iterdir()} if names.is_dir() else set()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_others_are_planned_and_applied(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    codes = draw.sample(sorted(WRONG), 4)
    wrong = {code: f"w{number}" for number, code in enumerate(codes)}
    files = {
        "odfbuild.yaml": "odfbuild: 1\nname: p\n",
        "datasets/good.yaml": root("good", fetch=local("good")),
        "good/1.csv": GOOD,
        "datasets/z.yaml": derivative("z", "good"),
    }
    for code, name in wrong.items():
        files[f"datasets/{name}.yaml"] = WRONG[code](name)
        files[f"datasets/{name}-reader.yaml"] = derivative(f"{name}-reader", name)
        files[f"datasets/{name}-next.yaml"] = derivative(f"{name}-next", f"{name}-reader")
    run = Within(lay_out(tmp_path / "p", files), capsys, monkeypatch)

    for expected in 4, 1:  # at last, nothing is left to do
        plan = run("plan")
        assert plan.code == 1, plan
        for code, name in wrong.items():
            found = [line for line in plan.out.splitlines() if f"error[{code}]" in line]
            assert any(f"datasets/{name}.yaml:" in line for line in found), (code, plan.out)
            for reader in f"{name}-reader", f"{name}-next":
                told = f"{reader} is left out: it is made of {name}"
                assert told in plan.out, (code, plan.out)
            assert f"+ {name}" not in plan.out
        saved = run("plan", "--out", "plan.json")
        assert saved.code == 1
        errors = [line for line in saved.err.splitlines() if "error[" in line]
        assert errors and all(line in plan.out for line in errors), saved.err
        assert not (run.folder / "plan.json").exists()
        apply = run("apply", "--yes")
        assert "error[internal]" not in apply.err
        assert heads(run.folder) == {"good", "z"}, apply
        assert apply.code == expected, apply


def test_all_formats_say_that_the_gate_does_not_pass_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "odfbuild.yaml": "odfbuild: 1\nname: p\n",
        "datasets/good.yaml": root("good", fetch=local("good")),
        "good/1.csv": GOOD,
        "datasets/z.yaml": derivative("z", "good"),
    }
    run = Within(lay_out(tmp_path / "p", files), capsys, monkeypatch)
    assert json.loads(run("apply", "--yes", "-o", "json").out)["gate_passed"]
    wrong = derivative("z", "good", "select t, k, v, missing from src")
    for day, form in (3, "json"), (4, "ndjson"):
        more = {f"good/{day}.csv": f"t,k,v\n2024-01-0{day},c,3\n"}
        lay_out(run.folder, {"datasets/z.yaml": wrong, **more})
        planned = run("plan", "-o", "json")
        assert planned.code == 1, planned
        assert not json.loads(planned.out)["gate"]["passed"]
        for code in 4, 1:  # some work, then none
            done = run("apply", "--yes", "-o", form)
            assert done.code == code, done
            said = json.loads(done.out if form == "json" else done.out.splitlines()[-1])
            assert (said["gate_passed"], said["notes"][0]["code"]) == (False, "unknown-column")


def test_a_definition_that_cannot_be_read_is_there_for_its_readers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = root("good", fetch=local("good"))
    files = {
        "odfbuild.yaml": "odfbuild: 1\nname: p\n",
        "datasets/good.yaml": good,
        "good/1.csv": GOOD,
        "datasets/z.yaml": derivative("z", "good"),
        "datasets/other.yaml": root("other", fetch=local("good")),
    }
    run = Within(lay_out(tmp_path / "p", files), capsys, monkeypatch)
    assert run("apply", "--yes").code == 0
    lay_out(run.folder, {"datasets/good.yaml": good.replace("merge:", "marge:")})
    lay_out(run.folder, {"good/2.csv": "t,k,v\n2024-01-03,c,3\n"})
    plan = run("plan")
    assert "unmanaged" not in plan.out
    assert "unknown-input" not in plan.out
    assert "z is left out: it is made of good" in plan.out
    assert "2 datasets left out" in plan.out
    assert run("apply", "--yes", "other").code == 4  # that file may be about it, too
    assert run("plan", "other").code == 1


IMPOSSIBLE = {
    "select t, k rlike '(' as x from src": "wrong-constant",
    "select t, parse_json(k) as x from src": "unstorable-type",
    "select t, variant_get(parse_json(k), '$.a') as x from src": "unstorable-type",
    "select t, array() as x from src": "unstorable-type",
    "select t, array(null) as x from src": "unstorable-type",
    "from src order by v limit 3": "syntax-error",
}


def test_what_no_step_can_carry_out_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "t DATE NOT NULL, k STRING NOT NULL, v BIGINT, op INT"
    lacking = root("lacking", columns=columns, query="select t, k from input").replace(
        "kind: Ledger", "kind: ChangelogStream"
    )
    files = {"datasets/good.yaml": root("good"), "datasets/lacking.yaml": lacking}
    for number, query in enumerate(IMPOSSIBLE):
        files[f"datasets/q{number}.yaml"] = derivative(f"q{number}", "good", f'"{query}"')
    files |= {"odfbuild.yaml": "odfbuild: 1\nname: p\n", "data/1.csv": GOOD}
    run = Within(lay_out(tmp_path / "p", files), capsys, monkeypatch)
    plan = run("plan")
    for number, code in enumerate(IMPOSSIBLE.values()):
        assert f"error[{code}]: q{number}: " in plan.out, plan.out
    assert "error[unknown-column]: lacking: the query has no result column 'op'" in plan.out
    assert "7 errors, 7 datasets left out" in plan.out
    assert run("apply", "--yes").code == 4
    assert heads(run.folder) == {"good"}


WORDS = (
    "sum(v)",
    "avg(v)",
    "mean(v)",
    "system_time",
    "count_if(v > 1)",
    "parse_json(k)",
    "array()",
    "variant_get(k, '$.a')",
    "t is not null",
    "k rlike '('",
    "cast('x' as int)",
    "first(v)",
    "op",
    "k:b",
    "interval 1 k",
    "row_number() over (order by t)",
    "max_by(v, t) filter (where v > 1)",
    "window(t, '1 day')",
)
UNREADABLE = (
    "select t, {} as x, from src",
    "select t, {} as x from from src",
    "select t, {} as x from src )",
    "select t, {} as x from src; select",
    "with w as (select t, {} as x, -- x) select * from w",
    "select t, {} as x from (src group by t",
    "select t, {} as x from src for system_time as of",
)


def test_a_text_that_is_no_query_is_left_out_whatever_words_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text.format(word) for text in UNREADABLE for word in WORDS]
    files = {"datasets/good.yaml": root("good"), "odfbuild.yaml": "odfbuild: 1\nname: p\n"}
    for number, query in enumerate(texts):
        files[f"datasets/q{number}.yaml"] = derivative(f"q{number}", "good", f'"{query}"')
    run = Within(lay_out(tmp_path / "p", {**files, "data/1.csv": GOOD}), capsys, monkeypatch)
    said = {line for line in run("plan").out.splitlines() if "error[" in line}
    refused = {line.split("error[syntax-error]: ")[-1].partition(":")[0] for line in said}
    assert refused == {f"q{number}" for number in range(len(texts))}
    assert run("apply", "--yes").code == 4
    assert heads(run.folder) == {"good"}


def test_a_query_by_a_hidden_key_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "count(distinct v) as n from src group by"
    groups = {
        "hidden": f"select max(t) as t, {count} k",
        "made": f"select max(t) as t, upper(k) as k, {count} upper(k)",
        "plain": f"select max(t) as t, k, {count} k",
    }
    files = {"odfbuild.yaml": "odfbuild: 1\nname: p\n", "datasets/good.yaml": root("good")}
    for name, query in groups.items():
        files[f"datasets/{name}.yaml"] = derivative(name, "good", query)
    run = Within(lay_out(tmp_path / "p", {**files, "data/1.csv": GOOD}), capsys, monkeypatch)
    said = [line.strip() for line in run("plan").out.splitlines() if "  query  " in line]
    assert said == [
        "query      whole (GROUP BY; the result lacks its key, so each step reads all rows)",
        "query      whole (GROUP BY; no column of the inputs is its key, "
        "so each step reads all rows)",
        "query      keyed (GROUP BY)",
    ]


def test_plan_and_apply_end_with_the_same_code_where_the_gate_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "odfbuild.yaml": "odfbuild: 1\nname: p\n",
        "datasets/good.yaml": root("good", fetch=local("good")),
        "good/1.csv": GOOD,
    }
    run = Within(lay_out(tmp_path / "p", files), capsys, monkeypatch)
    assert run("apply", "--yes").code == 0
    narrow = root("good", fetch=local("good"), columns="t DATE NOT NULL, k STRING NOT NULL")
    lay_out(run.folder, {"datasets/good.yaml": narrow})
    refused = run("plan").code, run("apply", "--yes").code
    assert refused == (3, 3)
    lay_out(run.folder, {"datasets/w.yaml": derivative("w", "nowhere")})
    both = run("plan").code, run("apply", "--yes").code
    assert both == (1, 1)


class Astray(FakeEngine):
    """Fails over a value as libraries do, by an exception of their own."""

    def ingest(self, request: IngestRequest) -> Frame:
        assert request.source.table is not None
        if 13 in request.source.table.column("v").to_pylist():
            raise pa.ArrowInvalid("13 is no number")
        return super().ingest(request)

    def ingest_together(self, request: IngestRequest, sources: Sequence[Frame]) -> Any:
        for each in sources:
            self.ingest(replace(request, source=each))
        return super().ingest_together(request, sources)


def test_an_exception_of_a_library_ends_its_step_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.executors.engine.spark import engine as spark

    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: Astray())
    files = {
        "odfbuild.yaml": "odfbuild: 1\nname: p\n",
        "datasets/a.yaml": root("a", fetch=local("a")),
        "a/1.csv": GOOD,
        "a/2.csv": "t,k,v\n2024-01-03,c,13\n",
        "a/3.csv": "t,k,v\n2024-01-04,d,4\n",
        "datasets/b.yaml": root("b", fetch=local("b")),
        "b/1.csv": GOOD,
        "datasets/z.yaml": derivative("z", "b"),
    }
    run = Within(lay_out(tmp_path / "p", files), capsys, monkeypatch)
    done = run("apply", "--yes")
    assert done.code == 4, done
    assert "error[internal]: a: ArrowInvalid: 13 is no number, while a/2.csv was read" in done.err
    assert "Traceback" not in done.err
    assert heads(run.folder) == {"a", "b", "z"}
    assert len(run.done("show", "z").splitlines()) > 2
    assert len(run.done("show", "a").splitlines()) > 2  # the file before it stands
    assert "Traceback" in run("apply", "--yes", ODFBUILD_TRACEBACK="1").err
