"""Time lineage: the model by steps and shapes, and the store.

python -m bench.lineage [--runs N] [--sizes N ...] [--steps STEP ...] [--peer MODULE]; every step
runs in a process of its own.  With --peer, another implementation of the same classes, such as
`datacube.model.lineage` where it is installed, runs the steps of the model in turn with ours.

Two shapes of n relations: `dag` has n / 2 datasets and one root that reaches all of them, otherwise
at random; `prod` is a root over years over about 20 products each, which have three sources of
their own and share an ancillary one among about 50.  Every tenth dataset has a home.
"""

import argparse
import gc
import importlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from odfbuild.lineage.model import LineageRelation
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.store import LineageFile, SqliteLineageResource

__all__ = ["main"]

OURS = "odfbuild.lineage"
PEER_SECONDS = {  # datacube 1.9.20 at 100,000 relations, two cores, single runs
    ("dag", "build"): 24.1,
    ("prod", "build"): 374.0,
    ("dag", "build_shuffled"): 32.2,
    ("dag", "merge_tree"): 46.4,
    ("dag", "extract"): 0.45,
    ("prod", "extract"): 0.67,
    ("dag", "diff_strict"): 51.8,
    ("dag", "diff_update"): 0.12,
    ("prod", "diff_update"): 0.28,
}
MODEL = ("build", "build_shuffled", "merge_tree", "extract", "diff_strict", "diff_update")
STORE = ("store_bulk", "store_tree", "store_tree_3", "store_merge_again", "store_one_more")
Edge = tuple[int, int, str]


def main() -> None:
    """Run the steps, or the one that a child process is told."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--steps", nargs="+", choices=(*MODEL, *STORE), default=(*MODEL, *STORE))
    parser.add_argument("--peer", default=None)
    parser.add_argument("--child", nargs=4, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        module, shape, size, step = given.child
        wall, spent = measured(work(importlib.import_module(module), shape, int(size), step))
        print(wall, spent)
        return
    for shape in ("dag", "prod"):
        for step in given.steps:
            report(shape, step, given.sizes, given.runs, given.peer)


def report(shape: str, step: str, sizes: list[int], runs: int, peer: str | None) -> None:
    """Print the medians of a step by size, what a relation takes, and the ratio to the peer."""
    modules = [OURS, peer] if peer and step in MODEL else [OURS]
    medians: dict[int, float] = {}  # processor seconds of ours
    for size in sizes:
        taken: dict[str, list[tuple[float, float]]] = {each: [] for each in modules}
        for _ in range(runs):
            for module in modules:
                taken[module].append(child(module, shape, size, step))
        for module, found in taken.items():
            walls = [wall for wall, _ in found]
            spent = statistics.median(cpu for _, cpu in found)
            medians.setdefault(size, spent)
            print(
                f"{shape:5}{step:18}{size:>8} {module:18}{statistics.median(walls):9.3f} s"
                f" ({min(walls):.3f} to {max(walls):.3f}), processor {spent:.3f} s",
                flush=True,
            )
    each = {size: spent / size * 1e6 for size, spent in medians.items()}
    for size in sizes[1:]:
        print(
            f"{'':5}{size:,} relations take {each[size]:.2f} us of the processor each, {sizes[0]:,}"
            f" took {each[sizes[0]]:.2f}: {each[size] / each[sizes[0]]:.2f} times"
        )
    if (told := PEER_SECONDS.get((shape, step))) and 100_000 in medians:
        ratio = told / medians[100_000]
        print(f"{'':5}datacube 1.9.20 took {told:g} s on a machine like this: {ratio:.1f} times")


def child(module: str, shape: str, size: int, step: str) -> tuple[float, float]:
    """Return the wall and processor seconds of one step in a new process."""
    command = [sys.executable, "-m", "bench.lineage", "--child", module, shape, str(size), step]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, spent = done.stdout.split()
    return float(wall), float(spent)


def measured(step: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and processor seconds of a call."""
    gc.collect()
    wall, spent = time.perf_counter(), time.process_time()
    kept = step()
    found = time.perf_counter() - wall, time.process_time() - spent
    del kept
    return found


def work(module: Any, shape: str, size: int, step: str) -> Callable[[], object]:
    """Make everything that a step needs, and return the step."""
    root, edges = edges_of(shape, size)
    ids = ids_of(edges)
    relations = [
        module.LineageRelation(c, ids[source], ids[derived]) for derived, source, c in edges
    ]
    homes = {ids[n]: f"home{n % 3}" for n in range(0, len(ids), 10)}
    if step.startswith("store"):
        return store_work(step, relations, ids[root], homes)
    collection = module.LineageRelations
    if step == "build_shuffled":
        random.Random(99).shuffle(relations)  # noqa: S311
    if step.startswith("build"):
        return partial(collection, relations=relations, homes=homes)
    if step == "merge_tree":
        return partial(collection, tree=tree_of(module, root, edges, ids))
    whole = filled(module, relations, homes)
    if step == "extract":
        return partial(whole.extract_tree, ids[root], module.LineageDirection.SOURCES)
    half = filled(module, relations[: len(relations) // 2], {})
    return partial(whole.relations_diff, half, allow_updates=step == "diff_update")


def store_work(
    step: str, relations: list[Any], root: uuid.UUID, homes: dict[uuid.UUID, str]
) -> Callable[[], object]:
    """Return a step of the store, which holds everything but for the bulk write."""
    folder = tempfile.mkdtemp(prefix="bench-lineage-")
    store = SqliteLineageResource(LineageFile(Path(folder) / "lineage.sqlite"))
    if step == "store_bulk":
        return partial(store.bulk_add, relations)
    store.bulk_add(relations)
    store.bulk_add_homes(homes.items())
    if step == "store_merge_again":
        return partial(store.merge, LineageRelations(relations=relations, homes=homes))
    if step == "store_one_more":
        return partial(store.bulk_add, [LineageRelation("c", root, uuid.uuid4())])
    return partial(store.get_source_tree, root, 3 if step == "store_tree_3" else 0)


def edges_of(shape: str, count: int) -> tuple[int, list[Edge]]:
    """Return the root and the distinct edges (derived, source, classifier) of a shape."""
    draw = random.Random(20240808)  # noqa: S311
    found: dict[tuple[int, int], str] = {}
    root = 0
    if shape == "dag":
        nodes = count // 2
        root = nodes - 1
        for n in range(nodes - 1):
            derived = draw.randrange(n + 1, nodes)
            found.setdefault((derived, n), f"c{draw.randrange(4)}")
        while len(found) < count:
            one, two = draw.randrange(nodes), draw.randrange(nodes)
            if one != two:
                pair = max(one, two), min(one, two)
                found.setdefault(pair, f"c{draw.randrange(4)}")
    else:
        for pair, classifier in produced(draw):
            if len(found) == count:
                break
            found.setdefault(pair, classifier)
    return root, [(derived, source, c) for (derived, source), c in found.items()]


def produced(draw: random.Random) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the edges of years of products without end."""
    following, year, ancillary = 1, 0, 0
    while True:
        if year == 0 or draw.random() < 1 / 20:
            year, following = following, following + 1
            yield (0, year), "year"
        if ancillary == 0 or draw.random() < 1 / 50:
            ancillary, following = following, following + 1
        product, following = following, following + 1
        yield (year, product), "ard"
        for _ in range(3):
            yield (product, following), "level1"
            following += 1
        yield (product, ancillary), "ancillary"


def ids_of(edges: Iterable[Edge]) -> list[uuid.UUID]:
    """Return an id for every number that occurs."""
    draw = random.Random(7)  # noqa: S311
    count = max(max(derived, source) for derived, source, _ in edges) + 1
    return [uuid.UUID(int=draw.getrandbits(128), version=4) for _ in range(count)]


def tree_of(module: Any, root: int, edges: Iterable[Edge], ids: list[uuid.UUID]) -> Any:
    """Return the whole graph as one tree of sources, children where a dataset is met first."""
    below: dict[int, list[tuple[int, str]]] = {}
    for derived, source, classifier in edges:
        below.setdefault(derived, []).append((source, classifier))
    direction = module.LineageDirection.SOURCES
    met = {root}
    top = module.LineageTree(direction, ids[root], {})
    walk = [(top, iter(below.get(root, ())))]
    while walk:
        node, rest = walk[-1]
        for source, classifier in rest:
            is_new = source not in met
            child = module.LineageTree(direction, ids[source], {} if is_new else None)
            node.children.setdefault(classifier, []).append(child)
            if is_new:
                met.add(source)
                walk.append((child, iter(below.get(source, ()))))
                break
        else:
            walk.pop()
    return top


def filled(module: Any, relations: list[Any], homes: dict[uuid.UUID, str]) -> Any:
    """Return a collection; that of datacube is filled past its checks, which take too long."""
    if not hasattr(module.LineageRelations(), "_relations_idx"):
        return module.LineageRelations(relations=relations, homes=homes)
    held = module.LineageRelations()
    for each in relations:
        held._relations_idx[each.ids()] = each.classifier
        held.relations.append(each)
        held.by_source.setdefault(each.source_id, {})[each.derived_id] = each.classifier
        held.by_derived.setdefault(each.derived_id, {})[each.source_id] = each.classifier
        held.dataset_ids.update((each.source_id, each.derived_id))
    held._homes.update(homes)
    return held


if __name__ == "__main__":
    main()
