"""What a plan of many datasets does once, and what for each of them."""

from collections import Counter
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner import make_plan
from tests.reads import texts_read
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import derivative, root

TEMPLATES = {
    "linear": "select t, k, concat(k, '-{n}') as l from src where v % 9 <> {n}",
    "union": "select t, k, v from src where v > {n} union all select t, k, v from src where k = "
    "'{n}'",
    "groups": "select max(t) as t, k, sum(v) as v from src where v > {n} group by k",
    "join": "select a.t, a.k, b.v from src a join src b on a.k = b.k and b.v > {n}",
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_one_of_many_queries_is_read(
    template: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"datasets/src.yaml": root()} | {
        f"datasets/d{n}.yaml": derivative(f"d{n}", query=TEMPLATES[template].format(n=n))
        for n in range(40)
    }
    here = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, FakeEngine())
    monkeypatch.setattr(make_plan, "_MANY", 10)
    with texts_read() as read:
        assert here("plan").code == 0
    assert len(read) <= 1


def test_names_are_compared_in_proportion_to_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: Counter[int] = Counter()
    plain = DatasetAlias.__eq__
    for count in (30, 60):

        def counted(self: DatasetAlias, other: object, count: int = count) -> bool:
            compared[count] += 1
            return plain(self, other)

        files = {"datasets/src.yaml": root()} | {
            f"datasets/d{n}.yaml": derivative(f"d{n}", query=TEMPLATES["linear"].format(n=n))
            for n in range(count)
        }
        folder = lay_out(tmp_path / f"{count}", files)
        here = Inside(folder, capsys, monkeypatch, FakeEngine())
        with monkeypatch.context() as patched:
            patched.setattr(DatasetAlias, "__eq__", counted)
            assert here("check").code == 0
            assert here("plan").code == 0
    assert compared[60] < 2.2 * compared[30]
