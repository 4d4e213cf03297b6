"""The second engine: a process of its own that speaks the contract."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.projects import REPOSITORY, environment
from tests.support.servers.second_engine import MODULE


@pytest.fixture(scope="module", name="address")
def _address() -> Iterator[str]:
    """Start it, and return where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE],
        cwd=REPOSITORY,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield f"127.0.0.1:{process.stdout.readline().strip()}"
    process.stdin.close()
    process.wait(30)
    process.stdout.close()
