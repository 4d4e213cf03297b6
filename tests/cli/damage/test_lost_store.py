"""Damage that is to be reported when the store that has the names of datasets is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.cli.unreadable import report_damage, watch_damage
from odfbuild.state.remote.client import StoredObject
from tests.state.remote.machines import machine
from tests.support.data.histories import Added, History
from tests.support.servers.memory_store import MemoryClient, lost


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_store_that_is_gone_ends_no_command_in_another_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_gone: bool
) -> None:
    class Mortal(MemoryClient):
        is_gone = False

        def listed(self, prefix: str) -> Iterator[StoredObject]:
            if self.is_gone:
                raise lost(prefix)
            return super().listed(prefix)

    client = Mortal()
    made = History(tmp_path, Added(1), workspace=machine(tmp_path / "here", client))
    made.workspace.note_damage(made.dataset.id, lost("a block"))
    watch_damage(made.workspace)
    client.is_gone = is_gone
    report_damage("the store is gone")
    said = capsys.readouterr().err
    assert ("src: a block: no answer" in said) == (not is_gone)
    assert not is_gone or said == ""
