"""A data file that is gone: whose it is, said before an engine starts."""

from pathlib import Path

import pytest

from odfbuild.executors.data.checks.verified_files import LostDataError
from tests.planner.builders import derivative
from tests.support.workshop import Workshop, ledger


@pytest.mark.parametrize("again", [False, True])
def test_the_step_that_needs_it_names_the_input(tmp_path: Path, again: bool) -> None:
    shop = Workshop(tmp_path)
    declared = [ledger(), derivative("out", "src", query="select t, k, v from src")]
    if again:
        shop.file("1.csv", "2024-01-01,a,1")
        assert not shop.apply(declared).failures
        shop.file("2.csv", "2024-01-02,b,2")
    else:
        shop.file("1.csv", "2024-01-01,a,1")
    assert not shop.apply(declared[:1]).failures
    gone = shop.dataset("src").slices()[-1][1]
    gone.unlink()
    report = shop.apply(declared)
    ((_, failed),) = report.failures
    assert isinstance(failed.error, LostDataError)
    assert failed.error.what == f"a data file of the input src is missing: {gone.name}"
    assert "odfbuild rebuild" in failed.error.fix
