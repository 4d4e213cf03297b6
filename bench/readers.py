"""Many readers of a server beside an apply: its memory, and the rows that the apply leaves.

python -m bench.readers [--readers N] [--rows N] [--days N] [--store].  A server has one dataset of
so many rows a day; with --store its workspace is in an S3 server on loopback, and its requests to
that are counted.  A third of the readers downloads slices and asks for history and status, a third
reads a slice slowly, and a third disconnects in a slice, all again and again, while so many days
are applied, each by a process; before that as many are applied without readers.  Afterwards each
row is there once, and every complete download was exact.
"""

import argparse
import asyncio
import hashlib
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.measure import DATA
from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.tokens import TokenFile, TokenScope
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.workspace import BucketWorkspace
from odfbuild.state.workspace import Workspace
from tests.support.servers.object_proxy import proxying
from tests.support.servers.object_store import CREDENTIALS, serving_objects

__all__ = ["main"]

NAME = "many.rows"
_PROGRAM = (sys.executable, "-c", "from odfbuild.cli.main import program; program()")
_SETTINGS = 'odfbuild: 1\ntargets: {{dev: {{workspace: "{}"}}}}\nengine: {{ingest: arrow}}\n'
_ROOT = f"""
kind: DatasetSnapshot
version: 1
content:
  name: {NAME}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: data/*.csv, order: ByName}}
      read: {{kind: Csv, header: true, schema: [t TIMESTAMP, k STRING, v BIGINT]}}
      merge: {{kind: Append}}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""
_PAUSE = 0.2  # seconds between the pieces of a slow reader, and between samples of memory


def main() -> None:
    """Serve, read and apply; print the memory of the server and what the readers got."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    project = DATA / "readers"
    shutil.rmtree(project, ignore_errors=True)
    for folder in (project / "data", project / "datasets"):
        folder.mkdir(parents=True)
    (project / "datasets" / "rows.yaml").write_text(_ROOT)
    with ExitStack() as stack:
        place, served, asked = "workspace", str(project / "workspace"), list[Any]()
        if given.store:
            os.environ.update(CREDENTIALS)
            store = stack.enter_context(serving_objects())
            proxy = stack.enter_context(proxying(store.port))
            place, asked = store.url("readers"), proxy.asked
            served = store.url("readers", proxy.port)
        (project / "odfbuild.yaml").write_text(_SETTINGS.format(place))
        _apply_day(project, 0, given.rows)
        bench = Bench(project, place, served, asked)
        asyncio.run(_measure(bench, given.readers, given.rows, given.days))


def _timed_day(project: Path, day: int, rows: int) -> tuple[float, float]:
    """Apply a day; return the seconds that it took, and those of a processor."""
    began, spent = time.monotonic(), _spent()
    _apply_day(project, day, rows)
    return time.monotonic() - began, _spent() - spent


def _spent() -> float:
    """Return the processor seconds of all ended processes that this one has started."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def _said(times: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{wall:.1f} ({spent:.1f})" for wall, spent in times)


def _apply_day(project: Path, day: int, rows: int) -> None:
    lines = (f"2031-01-01T00:00:00Z,k{at % 977},{day * rows + at}" for at in range(rows))
    (project / "data" / f"{day:03}.csv").write_text("\n".join(("t,k,v", *lines, "")))
    subprocess.run([*_PROGRAM, "apply", "--yes"], cwd=project, check=True, capture_output=True)


async def _measure(bench: "Bench", readers: int, rows: int, days: int) -> None:
    project = bench.project
    tokens = project / "tokens.json"
    now = datetime.now(UTC)
    token, _ = TokenFile(tokens).new(
        label="readers",
        scopes=frozenset({TokenScope.READ}),
        patterns=("*",),
        account=None,
        created=now,
        expires=now + timedelta(days=1),
    )
    serving = [*_PROGRAM, "serve", "--port", "0", "--tokens", str(tokens)]
    serving += ["--workspace", bench.served]
    with (project / "log").open("w") as log:
        server = subprocess.Popen(serving, cwd=project, stdout=subprocess.PIPE, stderr=log)
        try:
            said = b"" if server.stdout is None else server.stdout.readline()
            port = int(said.split(b" at ")[1].split(b"/")[2].rpartition(b":")[2])
            crowd = Crowd(port, token, bench)
            await _read_and_apply(crowd, server.pid, readers, rows, days, bench)
        finally:
            server.terminate()
            server.wait()


async def _read_and_apply(
    crowd: "Crowd", server: int, readers: int, rows: int, days: int, bench: "Bench"
) -> None:
    project = bench.project
    alone = [await asyncio.to_thread(_timed_day, project, day, rows) for day in range(1, days + 1)]
    before = _memory(server)
    bench.asked.clear()
    began = time.monotonic()
    reading = [asyncio.create_task(crowd.read(number)) for number in range(readers)]
    sampling = asyncio.create_task(_samples(server, crowd))
    times = [
        await asyncio.to_thread(_timed_day, project, day, rows)
        for day in range(days + 1, 2 * days + 1)
    ]
    crowd.ends = True
    await asyncio.gather(*reading)
    memory = await sampling
    seconds = time.monotonic() - began
    print(f"{readers} readers, {days} applies of {rows:,} rows")
    print("seconds of each apply without readers (of a processor):", _said(alone))
    print("seconds of each apply beside them (of a processor):", _said(times))
    print(f"memory of the server: {before / 1e6:.0f} MB before, at most {max(memory) / 1e6:.0f} MB")
    print("readers:", ", ".join(f"{n:,} {what}" for what, n in sorted(crowd.counts.items())))
    if bench.asked:
        count = len(bench.asked)
        print(f"requests to the store: {count:,}, or {count / seconds:.1f} a second")
    _check_rows(bench, (2 * days + 1) * rows)


async def _samples(server: int, crowd: "Crowd") -> list[int]:
    found = [_memory(server)]
    while not crowd.ends:
        await asyncio.sleep(_PAUSE)
        found.append(_memory(server))
    return found


def _memory(process: int) -> int:
    """Return the resident memory of a process, in bytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _check_rows(bench: "Bench", rows: int) -> None:
    paths = [path for _, path in bench.dataset().slices()]
    values = [v for path in paths for v in pq.read_table(path)["v"].to_pylist()]
    if values != list(range(rows)):
        raise SystemExit("rows are missing, repeated or in another order")
    print(f"{rows:,} rows, each once and in order")


@dataclass(frozen=True)
class Bench:
    """A project, its workspace, what the server has of it, and the requests to its store."""

    project: Path
    place: str
    served: str
    asked: list[Any]

    def dataset(self) -> Dataset:
        is_far = "://" in self.place
        where = BucketWorkspace(self.place) if is_far else Workspace(self.project / self.place)
        found = where.open(DatasetAlias.parse(NAME))
        if found is None:
            raise SystemExit(f"{NAME} is not there")
        return found


class Crowd:
    """Readers of one server, who read until `ends`; `counts` is what they got."""

    def __init__(self, port: int, token: str, bench: Bench) -> None:
        self._port = port
        self._token = token
        self._bench = bench
        self._known: list[str] = []
        self._known_at = 0.0
        self.ends = False
        self.counts: Counter[str] = Counter()

    async def read(self, number: int) -> None:
        """Read again and again: at once, slowly, or only the beginning."""
        chosen = random.Random(number)  # noqa: S311 - a choice of work
        while not self.ends:
            slice = chosen.choice(self._slices())
            try:
                match number % 3:
                    case 0:
                        await self._read_all(slice)
                        for path in (f"{NAME}/history", "system/status", f"{NAME}/refs/head"):
                            await self._get(path)
                    case 1:
                        await self._read_slowly(slice)
                    case _:
                        await self._read_some(slice)
            except (OSError, asyncio.IncompleteReadError):
                self.counts["refused or cut off by the server"] += 1
                await asyncio.sleep(_PAUSE)

    def _slices(self) -> list[str]:
        if time.monotonic() - self._known_at > 1:
            found = self._bench.dataset().data_slices()
            self._known = [str(each.physical_hash) for each in found]
            self._known_at = time.monotonic()
        return self._known

    async def _opened(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, int]:
        """Send a request; return the streams and the length of the body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 16)
        head = f"GET /{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer)
        if not answer.startswith(b"HTTP/1.1 200") or length is None:
            writer.close()
            raise OSError(answer[:60].decode())
        return reader, writer, int(length[1])

    async def _get(self, path: str) -> bytes:
        reader, writer, size = await self._opened(path)
        body = await reader.readexactly(size)
        writer.close()
        self.counts["answers"] += 1
        return body

    async def _read_all(self, slice: str) -> None:
        body = await self._get(f"{NAME}/data/{slice}")
        if hashlib.sha3_256(body).hexdigest() != slice.removeprefix("f1620"):
            raise SystemExit(f"{slice} has other bytes")
        self.counts["whole slices"] += 1

    async def _read_slowly(self, slice: str) -> None:
        reader, writer, _ = await self._opened(f"{NAME}/data/{slice}")
        while not self.ends and await reader.read(1 << 14):
            self.counts["slow pieces"] += 1
            await asyncio.sleep(_PAUSE)
        writer.close()

    async def _read_some(self, slice: str) -> None:
        reader, writer, _ = await self._opened(f"{NAME}/data/{slice}")
        await reader.read(1 << 12)
        writer.transport.abort()
        self.counts["disconnected"] += 1


if __name__ == "__main__":
    main()
