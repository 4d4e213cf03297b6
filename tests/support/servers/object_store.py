"""S3 servers on loopback, each one a session of tests and a prefix a test.

SeaweedFS is one of those that people run, in a process of its own; moto is what others test with,
in a thread, and knows its objects by other means: ETags, lists and refusals differ.
"""

import contextlib
import json
import logging
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import obstore
from obstore.store import S3Store

__all__ = [
    "BUCKET",
    "CREDENTIALS",
    "PORTS",
    "KilledServer",
    "ObjectServer",
    "free_ports",
    "serving_objects",
    "serving_simulated_objects",
]

BUCKET = "odf"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "reader-and-writer", "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-tests"}
PORTS = 4
"""How many ports a server takes, of those that have a free one 10,000 above."""
_SECONDS = 60.0


@dataclass(frozen=True)
class ObjectServer:
    """A running server with one bucket."""

    port: int

    @property
    def credentials(self) -> dict[str, str]:
        """Return the variables of the environment that give access to it."""
        return CREDENTIALS

    def url(self, prefix: str, port: int | None = None) -> str:
        """Return the URL of a prefix, by way of another port if one is given."""
        return f"s3+http://127.0.0.1:{port or self.port}/{BUCKET}/{prefix}/"

    def store(self, prefix: str = "", port: int | None = None) -> Any:
        options: Any = {"allow_http": True}
        return S3Store(
            BUCKET,
            prefix=prefix or None,
            endpoint=f"http://127.0.0.1:{port or self.port}",
            region="us-east-1",
            access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            client_options=options,
        )

    def files(self, prefix: str) -> dict[str, bytes]:
        """Return all objects below a prefix, by path."""
        store = self.store(prefix)
        found = [each["path"] for page in obstore.list(store) for each in page]
        return {path: bytes(obstore.get(store, path).bytes()) for path in found}


class KilledServer:
    """A server that can be killed, and goes on with what it had on its disk."""

    def __init__(self, folder: Path, ports: Sequence[int] | None = None) -> None:
        """Lay out a server at `PORTS` free ports: at given ones where several begin at once."""
        self._folder = folder
        self._command, self.server = _laid_out(folder, *(ports or free_ports(PORTS)))
        self._start()

    def _start(self) -> None:
        self._process = _started(self._command, self._folder)

    @property
    def pid(self) -> int:
        """Return the id of the process that runs."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the server and start it again; `wait` tells when it answers."""
        self.close()
        self._start()

    def close(self) -> None:
        """Kill the server for good."""
        self._process.kill()
        self._process.wait()

    def wait(self, longest: float = _SECONDS) -> None:
        """Return once the server takes writes."""
        _wait_for_writes(self.server, self._folder / "log", longest)


@contextmanager
def serving_objects() -> Iterator[ObjectServer]:
    """Run a server for the length of a block."""
    folder = Path(tempfile.mkdtemp(prefix="odf-s3-"))
    killed = KilledServer(folder)
    try:
        killed.wait()
        yield killed.server
    finally:
        killed.close()  # it takes ten seconds to end otherwise
        shutil.rmtree(folder, ignore_errors=True)


def _laid_out(
    folder: Path, master: int, volume: int, filer: int, s3: int
) -> tuple[list[str], ObjectServer]:
    """Write the settings of a server; return its command and address."""
    action = ["Admin", "Read", "Write", "List", "Tagging"]
    keys = {
        "accessKey": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "secretKey": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    (folder / "s3.json").write_text(
        json.dumps({"identities": [{"name": "t", "credentials": [keys], "actions": action}]})
    )
    (folder / "data").mkdir()
    command = [
        str(Path(sys.executable).parent / "weed"),
        *("server", "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1", "-dir", str(folder / "data")),
        *("-master.port", str(master), "-volume.port", str(volume), "-volume.max", "100"),
        *("-master.volumeSizeLimitMB", "64", "-filer", "-filer.port", str(filer)),
        *("-s3.port.iceberg", "0", "-s3.port.lance", "0", "-master.telemetry=false"),
        *("-s3", "-s3.port", str(s3), "-s3.config", str(folder / "s3.json")),
    ]
    return command, ObjectServer(s3)


def _started(command: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(folder)}, cwd=folder
        )


@contextmanager
def serving_simulated_objects() -> Iterator[ObjectServer]:
    """Run moto for the length of a block."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # each request, otherwise
    simulator = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    simulator.start()
    try:
        server = ObjectServer(simulator.get_host_and_port()[1])
        _make_bucket(server)
        yield server
    finally:
        simulator.stop()


def _wait_for_writes(server: ObjectServer, log: Path, longest: float) -> None:
    """Return when a write succeeds: the port answers before."""
    deadline = time.monotonic() + longest
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # it is there after a kill
            _make_bucket(server)
        with contextlib.suppress(Exception):
            obstore.put(server.store("probe"), "x", b"x")
            return
        time.sleep(0.2)
    raise AssertionError(log.read_text("utf-8", "replace")[-2000:])


def _make_bucket(server: ObjectServer) -> None:
    """Make the bucket, by a request that is signed for its address."""
    url = obstore.sign(server.store(), "PUT", "", timedelta(minutes=1))
    assert httpx.put(url, timeout=10).status_code == 200


def free_ports(count: int) -> list[int]:
    """Return free ports whose neighbours for gRPC, 10,000 above, are free too.

    The system gives none of these to those who ask for any.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randint(10_500, 22_000)
        if port not in found and all(map(_is_free, (port, port + 10_000))):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
