"""Requests, bytes and seconds of commands whose workspace is a bucket, and how these grow.

python -m bench.bucket [COUNT ...] [--delay MS] [--slices N].  A project of COUNT datasets, a fifth
roots, is built into a real S3 server on loopback by an engine without a JVM; then commands run as
whole processes through a link that counts requests and, once all is built, delays what passes by
half of --delay each way.  With two or more COUNT, a line is fitted through the figures of each
command; --slices builds that many slices for the chains, to see what their length costs.
"""

import argparse
import asyncio
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.hundred import DERIVATIVE, ROOT
from bench.run import PROGRAM
from tests.support.servers.object_store import BUCKET, CREDENTIALS, serving_objects

__all__ = ["main"]

_REQUEST = re.compile(rb"(GET|PUT|HEAD|POST|DELETE) (\S+) HTTP/1\.1\r\n")
_CHUNK = 1 << 18
_QUERY = "select event_time, id, upper(city) as city from source where id <> {number}"


@dataclass
class Link:
    """A link to a server: what passed since `start`, and how long anything is under way."""

    port: int = 0
    seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0

    def start(self) -> None:
        """Count again."""
        self.requests.clear()
        self.sent = self.received = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took: requests by kind, bytes that came and went, seconds."""

    requests: Mapping[str, int]
    received: int
    sent: int
    wall: float

    def of(self, kind: str) -> int:
        return self.requests.get(kind, 0)


KINDS = ("GET", "PUT", "LIST", "DELETE")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[50, 200])
    parser.add_argument("--delay", type=float, default=0.0, metavar="MS")
    parser.add_argument("--slices", type=int, default=1)
    chosen = parser.parse_args()
    with serving_objects() as server, linked(server.port) as link:
        found = [
            _measured(link, count, chosen.slices, chosen.delay / 2000) for count in chosen.counts
        ]
    print("| command | datasets | " + " | ".join(KINDS) + " | KB in | KB out | wall s |")
    print("|---" * (len(KINDS) + 5) + "|")
    for command in found[0]:
        for count, costs in zip(chosen.counts, found, strict=True):
            print(f"| {command} | {count:,} | {_row(costs[command])}")
    if len(found) > 1:
        print("\n| command | " + " | ".join(f"{kind} a dataset" for kind in KINDS) + " | fixed |")
        print("|---" * (len(KINDS) + 2) + "|")
        for command in found[0]:
            lines = [
                _line(chosen.counts, [costs[command].of(kind) for costs in found]) for kind in KINDS
            ]
            fixed = sum(line[1] for line in lines)
            slopes = " | ".join(f"{line[0]:.2f}" for line in lines)
            print(f"| {command} | {slopes} | {fixed:.0f} |")


def _row(cost: Cost) -> str:
    requests = " | ".join(f"{cost.of(kind):,}" for kind in KINDS)
    return f"{requests} | {cost.received / 1e3:,.0f} | {cost.sent / 1e3:,.0f} | {cost.wall:.2f} |"


def _line(x: Sequence[int], y: Sequence[int]) -> tuple[float, float]:
    found = statistics.linear_regression(x, y)
    return found.slope, found.intercept


def _measured(link: Link, count: int, slices: int, delay: float) -> dict[str, Cost]:
    with tempfile.TemporaryDirectory() as room:
        project = Path(room) / "project"
        roots = max(count // 5, 1)
        _lay_out(
            project, count, roots, f"s3+http://127.0.0.1:{link.port}/{BUCKET}/{count}-{slices}"
        )

        def cost(*arguments: str, machine: str = "one") -> Cost:
            link.start()
            begun = time.perf_counter()
            _run(Path(room) / machine, project, arguments)
            wall = time.perf_counter() - begun
            return Cost(dict(link.requests), link.received, link.sent, wall)

        def news(of: int) -> None:
            for root in range(of):
                folder = project / "data" / f"r{root}"
                folder.mkdir(parents=True, exist_ok=True)
                at = len(list(folder.iterdir()))
                rows = "".join(f"2024-01-01 00:00:{at % 60:02d},{id},1,x,2\n" for id in range(10))
                (folder / f"{at:05d}.csv").write_text(f"event_time,id,k,city,amount\n{rows}")

        found = {}
        link.seconds = 0.0
        news(roots)
        found["first apply"] = cost("apply", "--yes")
        for _ in range(slices - 1):
            news(roots)
            cost("apply", "--yes")
        link.seconds = delay
        found["plan, nothing new"] = cost("plan")
        found["plan, on a machine that knows nothing"] = cost("plan", machine="two")
        news(1)
        found["plan, one file new"] = cost("plan")
        found["apply, one file new"] = cost("apply", "--yes")
        found["status"] = cost("status")
        found["verify"] = cost("verify")
        found["gc"] = cost("gc")
        return found


def _run(machine: Path, project: Path, arguments: Sequence[str]) -> None:
    machine.mkdir(exist_ok=True)
    policy = machine / "policy.yaml"
    policy.write_text('odfbuild_policy: 1\nstores: ["*"]\n')
    environment = {
        **{"PATH": "/usr/bin:/bin", "HOME": str(machine), "LANG": "C.UTF-8"},
        **CREDENTIALS,
        "AWS_REGION": "us-east-1",
        "ODFBUILD_POLICY": str(policy),
    }
    done = subprocess.run(
        (PROGRAM, *arguments),
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        )


def _lay_out(project: Path, count: int, roots: int, workspace: str) -> None:
    shutil.rmtree(project, ignore_errors=True)
    (project / "datasets").mkdir(parents=True)
    (project / "odfbuild.yaml").write_text(
        "odfbuild: 1\nname: bucket\nengine: {ingest: arrow}\n"
        f"targets: {{dev: {{workspace: '{workspace}'}}}}\n"
    )
    for number in range(count):
        name = f"r{number}" if number < roots else f"d{number}"
        text = (
            ROOT.format(name=name)
            if number < roots
            else DERIVATIVE.format(
                name=name,
                source=f"r{number % roots}",
                engine="datafusion",
                query=_QUERY.format(number=number),
            )
        )
        (project / "datasets" / f"{name}.yaml").write_text(text)


@contextmanager
def linked(target: int) -> Iterator[Link]:
    """Run a link to a port of this machine for the length of a block."""
    link, loop = Link(), asyncio.new_event_loop()
    kept: set[object] = set()

    async def passing(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, there: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                if there:
                    link.sent += len(data)
                    if head := _REQUEST.match(data):
                        link.requests[_kind(*head.groups())] += 1
                else:
                    link.received += len(data)
                loop.call_later(link.seconds, writer.write, data)
        loop.call_later(link.seconds, writer.close)

    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept.add(asyncio.current_task())  # the loop alone does not keep it
        back, out = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(passing(reader, out, there=True), passing(back, writer, there=False))

    server = loop.run_until_complete(asyncio.start_server(joined, "127.0.0.1", 0))
    link.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield link
    finally:
        loop.call_soon_threadsafe(server.close)  # nobody is let in meanwhile
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(_cancelled(loop))  # connections that a command left open
        loop.close()


async def _cancelled(loop: asyncio.AbstractEventLoop) -> None:
    while left := asyncio.all_tasks(loop) - {asyncio.current_task()}:
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _kind(method: bytes, path: bytes) -> str:
    if method == b"GET" and b"list-type=2" in path:
        return "LIST"
    return "GET" if method == b"HEAD" else "DELETE" if b"?delete" in path else method.decode()


if __name__ == "__main__":
    main()
