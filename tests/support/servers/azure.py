"""Azurite, Microsoft's own server of Azure Blob Storage for tests, on loopback.

`make azurite` installs it, which needs npm.
"""

import base64
import hashlib
import hmac
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
from obstore.store import AzureStore

from tests.support.servers.object_store import ObjectServer, free_ports

__all__ = ["CREDENTIALS", "PROGRAM", "AzureServer", "serving_azure"]

PROGRAM: Final = Path(__file__).parent / "azurite" / "node_modules" / ".bin" / "azurite-blob"
_ACCOUNT: Final = "odftests"
CREDENTIALS: Final = {
    "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
    "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(b"key of tests " * 4).decode(),
}
_CONTAINER: Final = "odf"
_VERSION: Final = "2021-08-06"
_SECONDS: Final = 60.0


@dataclass(frozen=True)
class AzureServer(ObjectServer):
    """A running server with one container."""

    @property
    def credentials(self) -> dict[str, str]:
        return CREDENTIALS

    def _endpoint(self, port: int | None = None) -> str:
        return f"http://127.0.0.1:{port or self.port}/{_ACCOUNT}"

    def url(self, prefix: str, port: int | None = None) -> str:
        return f"az+{self._endpoint(port)}/{_CONTAINER}/{prefix}/"

    def store(self, prefix: str = "", port: int | None = None) -> Any:
        options: Any = {"allow_http": True}
        return AzureStore(
            _CONTAINER,
            prefix=prefix or None,
            endpoint=self._endpoint(port),
            account_name=_ACCOUNT,
            account_key=CREDENTIALS["AZURE_STORAGE_ACCOUNT_KEY"],
            client_options=options,
        )

    def make_container(self) -> int:
        """Make the container; return the status of the answer."""
        date = formatdate(usegmt=True)
        signed = (
            f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
            f"/{_ACCOUNT}/{_ACCOUNT}/{_CONTAINER}\nrestype:container"
        )
        key = base64.b64decode(CREDENTIALS["AZURE_STORAGE_ACCOUNT_KEY"])
        signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest())
        headers = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "authorization": f"SharedKey {_ACCOUNT}:{signature.decode()}",
        }
        url = f"{self._endpoint()}/{_CONTAINER}?restype=container"
        return httpx.put(url, headers=headers, timeout=10).status_code

    def sas(self, permissions: str = "rwdlac", until: str = "2099-01-01T00:00:00Z") -> str:
        """Return a shared access signature of the account."""
        signed = "\n".join([
            *(_ACCOUNT, permissions, "b", "sco", "", until, "", "http,https", _VERSION, "", ""),
        ])  # fmt: skip
        key = base64.b64decode(CREDENTIALS["AZURE_STORAGE_ACCOUNT_KEY"])
        signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest())
        return (
            f"sv={_VERSION}&ss=b&srt=sco&spr=http,https&se={until}&sp={permissions}"
            f"&sig={quote(signature.decode(), safe='')}"
        )


@contextmanager
def serving_azure() -> Iterator[AzureServer]:
    """Run a server for the length of a block."""
    folder = Path(tempfile.mkdtemp(prefix="odf-azure-"))
    port = free_ports(1)[0]
    key = CREDENTIALS["AZURE_STORAGE_ACCOUNT_KEY"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(str(PROGRAM), "--silent", "--disableTelemetry", "--skipApiVersionCheck"),
                *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)),
            ],
            stdout=log, stderr=log, cwd=folder,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "AZURITE_ACCOUNTS": f"{_ACCOUNT}:{key}"},
        )  # fmt: skip
    server = AzureServer(port)
    try:
        _wait(server, folder / "log")
        yield server
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: AzureServer, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            assert server.make_container() == 201
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8", "replace")[-2000:])
