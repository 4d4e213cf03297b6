"""Nothing new means nothing done; and what was done holds under every check."""

import json

import pyarrow.parquet as pq
import pytest

from tests.real.building import DERIVATIVES, ROOTS, Building


@pytest.fixture(params=["whole", "portions"])
def building(request: pytest.FixtureRequest) -> Building:
    found: Building = request.getfixturevalue(request.param)
    return found


def test_there_is_nothing_left_to_do(building: Building) -> None:
    before = building.steps[-1]
    plan = building.run("plan")
    assert (plan.code, plan.out) == (0, "No changes. 7 datasets match the project.\n")
    again = building.run("apply", "--yes")
    assert (again.code, again.out) == (0, plan.out)
    assert {name: str(building.dataset(name).head()) for name in building.names()} == before.heads


def test_a_plan_made_the_long_way_has_no_steps(building: Building) -> None:
    for remembered in (building.root / ".odfbuild" / "cache").glob("settled*"):
        remembered.unlink()
    plan = json.loads(building.run("plan", "-o", "json").out)
    assert plan["steps"] == []


def test_everything_verifies(building: Building) -> None:
    done = building.run("verify")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        [name, "ok"] for name in sorted((*ROOTS, *DERIVATIVES))
    ]
    assert lines[-1] == "7 datasets verified, 0 failed."


def test_nothing_is_left_behind_in_staging(building: Building) -> None:
    assert list((building.root / ".odfbuild" / "staging").iterdir()) == []


def test_verify_tells_of_a_file_that_was_encoded_anew(portions: Building) -> None:
    path = portions.dataset(DERIVATIVES[0]).slices()[-1][1]
    before = path.read_bytes()
    table = pq.read_table(path)
    path.unlink()
    pq.write_table(table, path, compression="none")
    try:
        done = portions.run("verify", DERIVATIVES[0])
    finally:
        path.unlink()
        path.write_bytes(before)
    assert done.code == 0
    assert " bytes, 1 encoded again\n" in done.out
