"""A server of engines as a process, and a caller that shares no code with it but gRPC."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from tests.odf.wire.plain_flatbuffers import read, write
from tests.support.projects import REPOSITORY, environment

__all__ = ["Served", "asked", "envelope", "opened", "serving"]

_PROGRAM = "from odfbuild.cli.main import program; program()"


@dataclass
class Served:
    """A server that runs, the folders of its requests, and what it said when it started."""

    process: "subprocess.Popen[str]"
    port: int
    read: Path
    write: Path
    said: str

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> int:
        """End it as a supervisor does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Served]:
    """Run `odfbuild engine serve` with two folders of its own."""
    folders = folder / "in", folder / "out"
    for each in folders:
        each.mkdir()
    given = ["--port", "0", "--read", str(folders[0]), "--write", str(folders[1]), *arguments]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "engine", "serve", *given],
            cwd=folder,
            env=environment(PYTHONPATH=str(REPOSITORY)),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said.startswith("Engines at 127.0.0.1:"), (folder / "log").read_text()
        port = int(said.split(":")[1].split()[0])
        yield Served(process, port, *folders, said)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        process.stdout.close()


@contextmanager
def opened(address: str) -> Iterator[Any]:
    """Yield a channel to an engine."""
    # Each channel has connections of its own, so that limits of one are no other's.
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(address, options=options) as channel:
        yield channel


def envelope(buffer: bytes) -> bytes:
    """Return bytes as a field of Protocol Buffers, by its definition."""
    size, head = len(buffer), b""
    while size >= 128:
        head += bytes([size % 128 + 128])
        size //= 128
    return b"\x0a" + head + bytes([size]) + buffer


def asked(channel: Any, method: str, request: dict[str, Any] | bytes, align: int = 4) -> list[Any]:
    """Return all that an engine answers, as pairs of a member's name and a table.

    The request is a plain table, or bytes as they go over the wire.  Raises grpc.RpcError.
    """
    kind = method.removeprefix("Execute")
    data = (
        request if isinstance(request, bytes) else envelope(write(f"{kind}Request", request, align))
    )
    call = channel.unary_stream(f"/engine.Engine/{method}")
    found = []
    for answer in call(data, timeout=120):
        head = 1
        while answer[head] >= 128:
            head += 1
        assert answer[0] == 10
        (member, table) = read(f"{kind}ResponseRoot", answer[head + 1 :])["value"]
        found.append((member.removeprefix(f"{kind}Response"), table))
    return found


def children_of(pid: int) -> set[int]:
    """Return the processes that a process has started and that run."""
    found = set()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.add(int(each.name))
    return found - {os.getpid()}
