"""The example on real data in some applies on a given Spark; what it then holds.

A process of its own, because a process has one Spark: `python -m
tests.executors.engine.spark.cluster.example MASTER FOLDER [--objects PREFIX] [--home PREFIX]
[--usual] [--applies N]`, the prefixes being those of stores: for files of a cluster, and for the
workspace.  Every step is taken for a large one, or as its rows are.  Between the applies files
arrive, and a definition is edited; at last all steps are run again.
"""

import json
import os
from argparse import ArgumentParser
from contextlib import nullcontext
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

from odfbuild.app import apply_plan
from odfbuild.executors.verify.chain import verify
from tests.executors.engine.spark.large_steps import large_steps
from tests.real.building import (
    AIRLINE_FILES,
    FILES_OF_DECLARATIONS,
    NATIONAL_FILES,
    REGION_FILES,
    REPAIRED_FILE,
    Building,
)

__all__ = ["Held", "built_example"]

Held: TypeAlias = dict[str, list[dict[str, Any]]]
"""The slices of each dataset: hashes, offsets, size and rows."""

_BEGIN = 1_735_689_600  # seconds since 1970; each apply is a second later


def built_example(
    master: str,
    folder: Path,
    *,
    objects: str | None = None,
    home: str | None = None,
    usual: bool = False,
    applies: int = len(FILES_OF_DECLARATIONS),
) -> Held:
    """Build the example in portions, with all edits of its definition; return what it holds."""
    building = Building.of_example(folder)
    building.home = home
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    _settle_on(building, master, objects)
    with nullcontext() if usual else large_steps():
        for number, files in enumerate(_portions()[:applies]):
            building.feed(*files)
            if number:
                building.declare(number)
            moment = (_BEGIN + number) * 10**9
            with mock.patch.object(apply_plan, "time_ns", lambda moment=moment: moment):
                step = building.apply()
            assert step.done.code == 0, step.done.err
        again = building.run("verify", "--replay")
        assert again.code == 0, again.out + again.err
    return {name: _slices(building, name) for name in building.names()}


def _portions() -> list[list[Path]]:
    """Return the files that arrive before each apply: those of the regions fit one declaration."""
    starts = [0, *accumulate(FILES_OF_DECLARATIONS)]
    portions = [list(REGION_FILES[start:end]) for start, end in pairwise(starts)]
    portions[0] += [*NATIONAL_FILES[:-4], *AIRLINE_FILES[:2]]
    portions[1] += [*NATIONAL_FILES[-4:-2], *AIRLINE_FILES[2:], REPAIRED_FILE]
    portions[-1] += NATIONAL_FILES[-2:]
    return portions


def _settle_on(building: Building, master: str, objects: str | None) -> None:
    spark = {"master": master, "memory": "1g", "resident": "off"}
    spark |= {} if objects is None else {"objects": objects}
    settings = building.root / "odfbuild.yaml"
    engine = json.dumps({"ingest": "spark", "spark": spark})
    more = f"engine: {engine}\n"
    if building.home is not None:
        more += f"targets: {json.dumps({'dev': {'workspace': building.home}})}\n"
    settings.write_text(f"{settings.read_text('utf-8')}{more}", "utf-8")
    policy = building.root.with_name(f"{building.root.name}-policy.yaml")
    policy.write_text('odfbuild_policy: 1\nmasters: ["*"]\nstores: ["s3+http://127.*"]\n', "utf-8")
    os.environ["ODFBUILD_POLICY"] = str(policy)


def _slices(building: Building, name: str) -> list[dict[str, Any]]:
    dataset = building.dataset(name)
    assert verify(dataset).findings == ()
    return [
        {
            "logical": str(each.logical_hash),
            "physical": str(each.physical_hash),
            "first": each.offset_interval.start,
            "last": each.offset_interval.end,
            "size": each.size,
            "rows": [{key: str(value) for key, value in row.items()} for row in rows],
        }
        for (each, _), rows in zip(dataset.slices(), building.slices(name), strict=True)
    ]


def main() -> None:
    """Build as the command line says, and print what is held as JSON."""
    parser = ArgumentParser()
    parser.add_argument("master")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--objects")
    parser.add_argument("--home")
    parser.add_argument("--usual", action="store_true")
    parser.add_argument("--applies", type=int, default=len(FILES_OF_DECLARATIONS))
    print(json.dumps(built_example(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
