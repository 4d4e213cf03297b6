"""`odfbuild serve` as a process of its own, on a free port of loopback."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.tokens import TokenFile, TokenScope
from odfbuild.state.remote.workspace import BucketWorkspace, local_half
from odfbuild.state.workspace import Workspace

__all__ = ["DatasetServer", "serving_datasets"]

_LIMITS = "from odfbuild.serve.limits import ServerLimits; ServerLimits.__init__.__kwdefaults__"
_PROGRAM = "from odfbuild.cli.main import program; program()"


@dataclass(frozen=True)
class DatasetServer:
    """A running server: its process, its addresses, its workspace and where its tokens are.

    Of a workspace in a store `folder` is what the machine of the server has of it.
    """

    process: "subprocess.Popen[str]"
    url: str
    folder: Path
    tokens: Path
    project: Path
    flight: str | None = None
    store: str | None = None

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.folder) if self.store is None else BucketWorkspace(self.store)

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def of(self, name: str) -> str:
        """Return the address of a dataset."""
        return f"odf+{self.url}{DatasetAlias.parse(name)}/"

    def token(self, *scopes: str, datasets: str = "*", account: str | None = None) -> str:
        """Make a token for this server, valid for a day; `datasets` has patterns with commas."""
        now = datetime.now(UTC).replace(microsecond=0)
        token, _ = TokenFile(self.tokens).new(
            label="test",
            scopes=frozenset(map(TokenScope, scopes)),
            patterns=tuple(datasets.split(",")),
            account=account,
            created=now,
            expires=now + timedelta(days=1),
        )
        return token

    def kept_tokens(self) -> list[dict[str, object]]:
        """Return what is kept of tokens."""
        found: list[dict[str, object]] = json.loads(self.tokens.read_text())["tokens"]
        return found

    def stop(self) -> int:
        """End it in order; return its exit code."""
        self.process.terminate()
        return self.process.wait(30)


def _local_half(folder: Path, store: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        return local_half(f"{store.rstrip('/')}/")


@contextmanager
def serving_datasets(
    folder: Path,
    *options: str,
    limits: Mapping[str, float] | None = None,
    store: str | None = None,
    env: Mapping[str, str] | None = None,
    of_project: bool = False,
) -> Iterator[DatasetServer]:
    """Serve the workspace `folder/workspace`, which is made; its log goes to a file.

    With `of_project` it is that of the project in the folder, and the server knows the project.

    With `store` the workspace is in a store, by its URL; `env` are more variables.  `limits` are
    some of ServerLimits that are others than the usual ones.
    """
    workspace = folder / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    tokens = folder / "state" / "tokens.json"
    prepared = "" if limits is None else f"{_LIMITS}.update({dict(limits)}); "
    with (folder / "log").open("a") as said:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", prepared + _PROGRAM, "serve", "--port", "0"),
                *(() if of_project else ("--workspace", store or str(workspace))),
                *("--tokens", str(tokens)),
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=folder if of_project else None,
            env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), **(env or {})},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " at http" in line, (folder / "log").read_text()
            url = line.split(" at ")[1].split(" ")[0]
            flight = None
            if "--flight" in options:
                flight = process.stdout.readline().split(" at ")[1].strip()
            root = workspace if store is None else _local_half(folder, store)
            yield DatasetServer(process, url, root, tokens, folder, flight, store)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(40)
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
