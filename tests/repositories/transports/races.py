"""Races of two who push to one bucket: python -m tests.repositories.transports.races --rounds 1000.

In each round both lead the dataset on from one head, each otherwise; exactly one may be told that
it is done, and its head is there in the end.
"""

import argparse
import os
import threading

from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.repositories.transports.object_store import ObjectFiles
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.remote.store.bucket import Bucket
from tests.support.servers.object_store import CREDENTIALS, ObjectServer, serving_objects

__all__ = ["race"]


def race(server: ObjectServer, prefix: str, rounds: int, pushers: int = 2) -> None:
    """Run rounds; AssertionError if one has another number of winners than one."""
    places = [ObjectFiles(Bucket(server.url(prefix)), "") for _ in range(pushers)]
    expected: Multihash | None = None
    for number in range(rounds):
        heads = [sha3_256(f"{number} {each}".encode()) for each in range(pushers)]
        won = _round(places, heads, expected)
        assert len(won) == 1, f"round {number}: {len(won)} were told that they won"
        found = places[0].get("refs/head", 256)
        assert found == str(heads[won[0]]).encode(), f"round {number}: another head is there"
        expected = heads[won[0]]


def _round(
    places: list[ObjectFiles], heads: list[Multihash], expected: Multihash | None
) -> list[int]:
    barrier, won = threading.Barrier(len(places)), []

    def push(at: int) -> None:
        barrier.wait()
        try:
            places[at].swap_head(expected, heads[at])
        except HeadMovedError:
            return
        won.append(at)

    threads = [threading.Thread(target=push, args=(at,)) for at in range(len(places))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def main() -> None:
    """Run as many rounds as are asked for, on a server of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1000)
    rounds = parser.parse_args().rounds
    os.environ.update(CREDENTIALS)
    with serving_objects() as server:
        race(server, "races", rounds)
    print(f"{rounds} races of two, exactly one won each")


if __name__ == "__main__":
    main()
