"""Jobs in a store that lies: their rows are right, or nothing of the step is committed."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.executors.engine.contract.job.test_steps import Sales, Slices, here
from tests.support.servers.object_proxy import proxying
from tests.support.servers.object_store import ObjectServer

__all__ = ["here"]

Alters = Callable[[str, str, int, bytes], tuple[int, bytes]]
LIES = ("a byte", "shorter", "longer", "nothing", "another", "first", "gone")


def _lying(
    draw: random.Random, often: float
) -> Callable[[str, str, int, bytes], tuple[int, bytes]]:
    """Return what changes some answers to GET and HEAD below the prefix of the jobs."""
    seen: list[bytes] = []
    first: dict[str, bytes] = {}

    def altered(method: str, path: str, status: int, data: bytes) -> tuple[int, bytes]:
        asks = method in ("GET", "HEAD") and "list-type" not in path
        if method == "GET" and asks and status < 300:
            seen.append(data)
            first.setdefault(path, data)
        if not asks or status >= 300 or draw.random() > often:
            return status, data
        lie = draw.choice(LIES)
        if lie == "gone" or method == "HEAD":
            return 404, b""
        at = draw.randrange(len(data)) if data else 0
        return status, {
            "a byte": data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if data else b"",
            "shorter": data[:at],
            "longer": data + b"\n",
            "nothing": b"",
            "another": draw.choice(seen or [data]),
            "first": first.get(path, data),
        }[lie]

    return altered


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.holds("engine-jobs")
def test_a_store_that_lies_changes_no_row(
    tmp_path: Path, running_store: ObjectServer, here: Slices, seed: int
) -> None:
    draw = random.Random(seed)
    with proxying(running_store.port) as proxy:
        place = running_store.url(f"lies-{seed}").replace(str(running_store.port), str(proxy.port))
        more = f", limit: 20s, objects: '{place}'"
        project = Sales(tmp_path / "project", "{tags: [big]}", more=more)
        for _ in range(2):
            project.grow()
            proxy.alters = _lying(draw, often=draw.choice([0.05, 0.2, 0.5]))
            done = project("apply", "--yes")
            assert "Traceback" not in done.out + done.err
            assert done.code == 0 or "error[" in done.err, done.err
            assert project("verify", "--recompute").code == 0
            proxy.alters = None
            while (done := project("apply", "--yes")).code == 4:
                shared = running_store.store(f"lies-{seed}")
                for each in [each["path"] for page in shared.list() for each in page]:
                    shared.delete(each)
            assert done.code == 0, done.err
        assert project.slices() == here
