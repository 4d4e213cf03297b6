"""The second engine, a process of its own that speaks the contract, and clients of it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfbuild.executors.engine.contract.outside import EngineElsewhere, client_of
from odfbuild.project.config.outside_engines import OutsideEngine
from tests.support.projects import REPOSITORY, environment
from tests.support.servers.second_engine import MODULE

Engines = Callable[..., EngineElsewhere]


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


@pytest.fixture
def engine(address: str, tmp_path: Path) -> Iterator[Engines]:
    """Yield what makes clients of it, or of another address; they are closed afterwards."""
    made = []

    def of(limit: float = 60.0, *, at: str = address, name: str = "duck") -> EngineElsewhere:
        found = OutsideEngine(name="duck", address=at, engine=name, limit=limit)
        made.append(EngineElsewhere(found, client_of(found, tmp_path, tmp_path)))
        return made[-1]

    yield of
    for each in made:
        each.close()
