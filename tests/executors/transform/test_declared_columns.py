"""A column that a source was declared to have, and of which no row has come yet, may be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.process.inside import lay_out, without_jvm
from tests.support.projects.texts import GOOD, derivative, root

SETTINGS = "odfbuild: 1\nname: shop\nengine: {ingest: arrow}\n"
MORE = "t DATE NOT NULL, k STRING NOT NULL, v BIGINT, w INT"


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    done = without_jvm("show", name, "-o", "json", cwd=folder)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    listed: list[dict[str, Any]] = found["rows"] if isinstance(found, dict) else found
    return listed


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("select t, k, w from src", "w"),
        ("select max(t) as t, k, max(w) as w from src group by k", "w"),
        ("select t, k, coalesce(w, 7) as w from src where w is null or w > 1", "w"),
    ],
)
def test_a_new_query_reads_it_as_null_until_rows_come(tmp_path: Path, query: str, key: str) -> None:
    folder = lay_out(
        tmp_path / "project",
        {
            "odfbuild.yaml": SETTINGS,
            "datasets/src.yaml": root(),
            "datasets/all.yaml": derivative("all", query="select * from src", engine="datafusion"),
            "data/1.csv": GOOD,
        },
    )

    def run(*words: str) -> None:
        done = without_jvm(*words, cwd=folder)
        assert done.code == 0, done.out + done.err

    run("apply", "--yes")
    lay_out(
        folder,
        {
            "datasets/src.yaml": root(columns=MORE),
            "datasets/out.yaml": derivative("out", query=query, engine="datafusion"),
        },
    )
    run("plan")
    run("apply", "--yes")
    run("verify", "--replay", "--recompute")
    assert [row[key] for row in rows(folder, "out")] == [7 if "7" in query else None] * 2
    lay_out(folder, {"data/2.csv": "t,k,v,w\n2024-01-03,c,3,5\n"})
    run("apply", "--yes")
    run("verify", "--replay", "--recompute")
    assert {row["k"]: row[key] for row in rows(folder, "out")}["c"] == 5
    assert "w" not in rows(folder, "all")[0]
