"""A resident JVM that ends in the middle of an apply: named, and the rest of the run goes on."""

from pathlib import Path

import pytest

from tests.support.process.inside import lay_out
from tests.support.projects import program
from tests.support.projects.texts import derivative, root

pytestmark = pytest.mark.spark

BIG = (
    "select t, k, length(array_join(transform(sequence(1, 20000000 + v), "
    "x -> repeat('abcdefgh', 12)), '')) as v from src"
)


def test_a_resident_engine_without_memory_is_named_and_others_go_on(tmp_path: Path) -> None:
    shop = lay_out(
        tmp_path,
        {
            "odfbuild.yaml": "odfbuild: 1\nengine: {spark: {memory: 480m, resident: auto}}\n",
            "datasets/src.yaml": root(),
            "datasets/a.yaml": derivative("a", query=f'"{BIG}"'),
            "datasets/b.yaml": derivative("b"),
            "data/1.csv": "t,k,v\n2024-01-01,a,1\n2024-01-02,b,2\n",
        },
    )
    started = program("engine", "start", "--idle", "5m", cwd=shop)
    assert started.code == 0, started.err
    try:
        done = program("apply", "--yes", "-j", "1", cwd=shop)
    finally:
        program("engine", "stop", "--now", cwd=shop)
    assert done.code == 4, done.err
    assert "error[engine-memory]: a: Spark failed to run the query: Java ran out of memory" in (
        done.err
    )
    assert "raise `memory` in odfbuild.yaml" in done.err
    assert "jvm-last.log" in done.err
    assert "transform:b: 2 blocks, 2 rows" in done.out + done.err
