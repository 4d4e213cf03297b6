"""A damaged file of lineage is found by whoever looks through all of it."""

from pathlib import Path
from uuid import UUID

import pytest

from odfbuild.lineage.model import LineageRelation
from odfbuild.lineage.store import LineageFile, LineageStoreError, SqliteLineageResource


def test_damaged_pages_are_found(tmp_path: Path) -> None:
    path = tmp_path / "lineage.sqlite"
    store = SqliteLineageResource(LineageFile(path))
    store.bulk_add(LineageRelation("x", UUID(int=n), UUID(int=n + 1)) for n in range(500))
    store.tables.check()
    store.close()
    data = path.read_bytes()
    for at in range(4096, len(data), 4096):
        path.write_bytes(data[:at] + b"\xff" * 64 + data[at + 64 :])
        damaged = SqliteLineageResource(LineageFile(path))
        with pytest.raises(LineageStoreError, match="lineage"):
            damaged.tables.check()
        damaged.close()
