"""What plan passes, apply carries out; whatever check refuses, plan refuses."""

from pathlib import Path

import pytest

from tests.agreement.engine import DuckEngine
from tests.agreement.outcome import Difference, differences
from tests.support.effort import examples


@pytest.mark.parametrize("seed", range(1000, 1000 + examples(6, 24)))
def test_plan_and_apply_agree_on_random_projects(seed: int, tmp_path: Path) -> None:
    found = list(differences(seed, tmp_path / "project", DuckEngine()))
    assert not [f"{each.law}\n{each.said}" for each in found if isinstance(each, Difference)]


@pytest.mark.parametrize("seed", range(40024, 40024 + examples(6, 24)))
def test_they_agree_with_all_that_stands_around_definitions(seed: int, tmp_path: Path) -> None:
    found = list(differences(seed, tmp_path / "project", DuckEngine(), around=True))
    assert not [f"{each.law}\n{each.said}" for each in found if isinstance(each, Difference)]
