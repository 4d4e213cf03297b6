"""A sample of `python -m tests.faults.flips`; the slow test runs all of it."""

from pathlib import Path

import pytest

from tests.faults.flips import main


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the copies in memory where there is room: what is tested is reading."""
    if Path("/dev/shm").is_dir():  # noqa: S108 - of Linux
        monkeypatch.setattr("tempfile.tempdir", "/dev/shm")  # noqa: S108


def test_damaged_bytes_end_in_a_named_error_or_the_right_rows() -> None:
    assert main(["--count", "20"]) == 0


@pytest.mark.slow
def test_fifteen_hundred_times() -> None:
    assert main(["--count", "1500", "--from", "20"]) == 0


@pytest.mark.slow
@pytest.mark.spark
def test_with_spark() -> None:
    assert main(["--count", "150", "--spark"]) == 0
