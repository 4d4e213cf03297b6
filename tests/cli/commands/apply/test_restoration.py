"""odfbuild rebuild --restore: lost and damaged files of derivatives come back, byte for byte."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data import parquet
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.market import dataset
from tests.support.projects.texts import derivative, root

NAMES = ("out", "report", "last", "counts", "pairs")
PAIRS = "select src.t, src.k, src.v, other.v as w from src join other on src.k = other.k"
FILES = {
    "datasets/src.yaml": root(),
    "datasets/out.yaml": derivative(),
    "datasets/report.yaml": derivative("report", "out", "select t, k, v from src"),
    "datasets/last.yaml": derivative("last", "report", "select t, k, v from src"),
    "datasets/counts.yaml": derivative(
        "counts", "out", "select t, k, count(*) as n from src group by t, k", engine="datafusion"
    ),
    "datasets/pairs.yaml": derivative("pairs", "out", PAIRS, engine="datafusion", beside="report"),
}


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Apply rows, groups and a join, one made of the other, three times."""
    inside = Inside(lay_out(tmp_path / "shop", FILES), capsys, monkeypatch, FakeEngine())
    for day in (1, 2, 3):
        lay_out(inside.project, {f"data/{day}.csv": f"t,k,v\n2024-01-0{day},k{day},{day}\n"})
        assert inside("apply", "--yes").code == 0
    return inside


def files(project: Path, *names: str) -> dict[Path, bytes]:
    paths = [path for name in names for _, path in dataset(project, name).slices()]
    return {path: path.read_bytes() for path in paths}


def restored(run: Inside, *arguments: str) -> tuple[int, Mapping[str, Any]]:
    done = run("rebuild", "--restore", "-o", "json", *arguments)
    return done.code, json.loads(done.out)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_is_lost_of_derivatives_comes_back(run: Inside, data: st.DataObject) -> None:
    before, chains = files(run.project, *NAMES), heads(run.project)
    assert len(before) == 15
    harm = st.none() | st.tuples(st.floats(0, 1), st.sampled_from([b"", b"\0PAR1\xff"]))
    lost = data.draw(st.dictionaries(st.sampled_from(sorted(before)), harm, min_size=1))
    try:
        for path, how in lost.items():
            if how is None:
                path.unlink()
            else:
                kept = before[path][: int(how[0] * (len(before[path]) - 8))]
                path.write_bytes(kept + how[1])
        code, answer = restored(run)
        assert (code, answer["failed"]) == (0, 0), answer
        assert {each["hash"] for each in answer["files"]} == {path.name for path in lost}
        assert files(run.project, *NAMES) == before
        assert heads(run.project) == chains
        assert run("verify").code == 0
    finally:
        for path, content in before.items():
            path.write_bytes(content)


def test_nothing_lost_needs_no_engine(run: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odfbuild.app.maintenance.restoration.engine_of", None)
    done = run("rebuild", "--restore")
    assert (done.code, done.out) == (
        0,
        "Nothing to restore: all files are there, with the recorded rows.\n",
    )


def test_a_dry_run_says_what_would_be_restored(run: Inside) -> None:
    before = files(run.project, *NAMES)
    for path in list(before)[:2]:
        path.unlink()
    done = run("rebuild", "--restore", "--dry-run")
    assert done.code == 0
    assert done.out.count("missing\n") == 2
    assert done.out.endswith("2 steps would be rerun.\n")
    assert not any(path.exists() for path in list(before)[:2])


def test_selectors_say_whose_files(run: Inside) -> None:
    for path in files(run.project, *NAMES):
        path.unlink()
    code, answer = restored(run, "report")
    assert (code, answer["failed"]) == (1, 3)
    assert "it cannot be rerun, as its input src is damaged" in answer["files"][0]["why"]
    code, answer = restored(run, "+report")
    assert (code, len(answer["files"])) == (0, 6)
    code, answer = restored(run, "--exclude", "out")
    assert (code, {each["dataset"] for each in answer["files"]}) == (0, {"last", "counts", "pairs"})


def test_data_of_a_root_cannot_come_back(run: Inside) -> None:
    lost = [*files(run.project, "src")][:1] + [*files(run.project, "last")][2:]
    for path in lost:
        path.unlink()
    done = run("rebuild", "--restore")
    assert done.code == 4
    assert "NOT RESTORED: data of a root is made of nothing else" in done.out
    assert "1 of 2 files restored." in done.out
    assert "Restore from a copy, or import or pull again: src." in done.err


def test_rows_in_other_bytes_are_put_in_place_if_asked_for(
    run: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(run.project, "out")
    for path in before:
        path.unlink()
    writer = parquet.FileWriter

    def packed(*arguments: Any, **options: Any) -> Any:
        return writer(*arguments, **{**options, "compression": "zstd"})

    monkeypatch.setattr(parquet, "FileWriter", packed)
    done = run("rebuild", "out", "--restore")
    assert done.code == 1
    assert "with the recorded rows in other bytes" in done.out
    assert "--reencode" in done.err
    assert not any(path.exists() for path in before)
    done = run("rebuild", "out", "--restore", "--reencode")
    assert done.code == 0
    assert done.out.count("restored, encoded again") == 3
    assert "3 encoded again" in run("verify", "out").out
    assert run("show", "out", "--current").code == 0
    assert files(run.project, "out") != before


def test_a_query_that_gives_other_rows_restores_nothing(
    run: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(run.project, "out")
    for path in before:
        path.unlink()
    text = "select t, k, v from src"
    engine = FakeEngine(queries={text: lambda inputs: [{**r, "v": 9} for r in inputs["src"]]})
    done = Inside(run.project, run._capture, monkeypatch, engine)("rebuild", "out", "--restore")
    assert done.code == 1
    assert "the query gives other rows now" in done.out
    assert "odfbuild rebuild out --downstream" in done.err
    assert not any(path.exists() for path in before)


def test_a_broken_chain_stops_that_dataset_only(run: Inside) -> None:
    lost = [*files(run.project, "last")][2]
    lost.unlink()
    src = dataset(run.project, "src")
    next(src.stores.blocks.path(name) for name, _ in src.blocks()).write_bytes(b"x")
    done = run("rebuild", "--restore")
    assert "src  its chain cannot be read" in done.out
    assert done.code == 4
    assert lost.exists()


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_dry_run_ends_as_the_command_would(run: Inside, data: st.DataObject) -> None:
    before = files(run.project, "src", *NAMES)
    chosen = data.draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    try:
        lost = st.dictionaries(st.sampled_from(sorted(before)), st.booleans(), max_size=6)
        for path, is_altered in data.draw(lost).items():
            if is_altered:
                path.write_bytes(before[path][:-9] + bytes(9))
            else:
                path.unlink()
        dry, foreseen = restored(run, *chosen, "--dry-run")
        code, answer = restored(run, *chosen)
        assert (dry, foreseen["failed"]) == (code, answer["failed"])
        assert [each["why"] for each in foreseen["files"]] == [
            each["why"] for each in answer["files"]
        ]
    finally:
        for path, content in before.items():
            path.write_bytes(content)


@pytest.mark.parametrize(
    "arguments",
    [["out", "report"], [], ["out", "--reencode"], ["out", "--restore", "--downstream"]],
)
def test_what_does_not_go_together_is_refused(run: Inside, arguments: list[str]) -> None:
    assert run("rebuild", *arguments).code == 64


@pytest.mark.spark
def test_slices_and_checkpoints_of_spark_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = "select k, max(t) as t, count(*) as n, sum(v) as s from src group by k"
    shop = lay_out(
        tmp_path / "shop",
        {
            "datasets/src.yaml": root(merge="{kind: Append}"),
            "datasets/out.yaml": derivative(query=f'"{counts}"'),
            "datasets/report.yaml": derivative("report", "out", '"select t, k, n from src"'),
        },
    )
    run = Inside(shop, capsys, monkeypatch)
    for day in (1, 2, 3):
        lay_out(shop, {f"data/{day}.csv": f"t,k,v\n2024-01-0{day},a,{day}\n2024-01-01,b,1\n"})
        done = run("apply", "--yes")
        assert done.code == 0, done.err
    folders = [path.parents[1] for path in files(shop, "out", "report")]
    kept = {
        path: path.read_bytes()
        for folder in dict.fromkeys(folders)
        for part in ("data", "checkpoints")
        for path in (folder / part).glob("f*")
    }
    assert any(path.parent.name == "checkpoints" for path in kept)
    for parts in (("checkpoints",), ("data",), ("data", "checkpoints")):
        for path in kept:
            if path.parent.name in parts:
                path.unlink()
        assert restored(run, "--dry-run")[0] == 0
        done = run("rebuild", "--restore")
        assert done.code == 0, done.out + done.err
        assert {path: path.read_bytes() for path in kept} == kept
