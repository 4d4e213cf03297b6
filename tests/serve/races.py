"""Races of two pushers to one dataset on a server: exactly one wins each.

python -m tests.serve.races --races 1000 [--from 0]
"""

import argparse
import shutil
import tempfile
import threading
from pathlib import Path

from odfbuild.errors import OdfBuildError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.workspace import Workspace
from tests.serve.copies import content, grow, made, note, push, update_of
from tests.support.data.disks import verified
from tests.support.servers.datasets import DatasetServer, serving_datasets


def race(server: DatasetServer, folder: Path, token: str, number: int) -> None:
    """Let two copies of a dataset that went different ways be pushed at once.

    Every third race is for a dataset that is not there yet.
    """
    name = f"race-{number}"
    first = made(Workspace(folder / "one"), name, 1)
    clients = [SmartDataset(server.of(name), token=token) for _ in range(2)]
    if number % 3:
        push(first, clients[0])
    shutil.copytree(folder / "one", folder / "two")
    copies = [Workspace(folder / each).open(DatasetAlias.parse(name)) for each in ("one", "two")]
    for each, dataset in enumerate(copies):
        assert dataset is not None
        note(dataset, f"pusher {each}")
        grow(Workspace(folder / ("one", "two")[each]), dataset, number % 2)
    results = at_once([each for each in copies if each is not None], clients)
    there = server.workspace.open(DatasetAlias.parse(name))
    assert there is not None
    won = [each for each, lost in zip(copies, results, strict=True) if lost is None]
    assert len(won) == 1, results
    assert won[0] is not None
    assert content(there) == content(won[0])
    verified(there)
    (lost,) = (each for each in results if each is not None)
    assert isinstance(lost, HeadMovedError), repr(lost)
    for client in clients:
        client.close()


def at_once(copies: list[Dataset], clients: list[SmartDataset]) -> list[OdfBuildError | None]:
    """Push all at once; return what each of them heard, None of who won."""
    updates = [update_of(*each) for each in zip(copies, clients, strict=True)]
    start = threading.Barrier(len(updates))
    results: dict[int, OdfBuildError | None] = {}

    def run(each: int) -> None:
        start.wait()
        try:
            clients[each].push(updates[each], lambda _: None)
            results[each] = None
        except OdfBuildError as error:
            results[each] = error

    threads = [threading.Thread(target=run, args=(each,)) for each in range(len(updates))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[each] for each in sorted(results)]


def main() -> None:
    """Run races and say how many there were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=1_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as base, serving_datasets(Path(base) / "server") as server:
        token = server.token("read", "write", "create")
        for number in range(given.first, given.first + given.races):
            folder = Path(base) / str(number)
            race(server, folder, token, number)
            shutil.rmtree(folder)
    print(f"{given.races:,} races, one winner each")


if __name__ == "__main__":
    main()
