"""What an engine refuses of new definitions, before any block of theirs is written."""

from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.analysis import Analysis
from tests.engines import FakeEngine
from tests.inside import Inside, lay_out
from tests.texts import GOOD, derivative, root


class Picky(FakeEngine):
    """Refuses every query with a 7 in it, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def analyse(self, question: Analysis) -> pa.Schema:
        self.texts.append(question.steps[0].text)
        if "7" in question.steps[0].text:
            raise InvalidQueryError(what="no 7", why="it is picky", fix="write 8")
        return super().analyse(question)


@pytest.mark.parametrize("numbers", [(7, 17, 8), (8, 7, 9), (7, 8, 9)])
def test_one_of_queries_that_are_alike_stands_for_others_only_if_it_passes(
    numbers: tuple[int, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"datasets/src.yaml": root(), "data/1.csv": GOOD}
    for at, number in enumerate(numbers):
        query = f"select t, k, v from src where v < {number}"
        files[f"datasets/d{at}.yaml"] = derivative(f"d{at}", query=query)
    engine = Picky()
    done = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, engine)(
        "apply", "--yes"
    )
    first = numbers.index(8)
    assert len(engine.texts) == first + 1
    for at in range(first):
        assert f"append:d{at}: no 7" in done.err
        assert not (tmp_path / f"project/.odfbuild/names/d{at}").exists()
