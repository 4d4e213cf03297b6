"""A workspace in a store whose layout is of another version: no command reads or writes it."""

from pathlib import Path

import pytest

from tests.program.test_shared_workspace import Machine
from tests.support.servers.object_store import ObjectServer

LATER = b'{"odfbuild_workspace": 2}'
COMMANDS = ("plan", "apply --yes", "unlock out", "workspace move copy", "doctor", "serve --port 0")
STORES = ("simulated_store", "azure_store", "google_store")


@pytest.mark.parametrize(
    ("store", "line"),
    [*(("running_store", each) for each in COMMANDS), *((each, "plan") for each in STORES)],
    indirect=["store"],
)
def test_a_command_neither_reads_nor_writes_it(
    store: ObjectServer, line: str, tmp_path: Path
) -> None:
    prefix = f"layout-{tmp_path.parent.name}-{tmp_path.name}"
    machine = Machine(tmp_path / "here", store, store.url(prefix))
    store.store(prefix).put("format", LATER)
    done = machine(*line.split())
    said = done.out + done.err
    assert done.code == 1, said
    assert "layout that this version of odfbuild does not know" in said
    assert "its object `format` names another format" in said or line == "doctor"
    assert store.files(prefix) == {"format": LATER}
