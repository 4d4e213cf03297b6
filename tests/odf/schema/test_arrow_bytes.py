"""Raw Arrow schema bytes from outside."""

import subprocess
import sys

import pytest
from flatbuffers import Builder

from odfbuild.odf.events import DataField, DataSchema, DataTypeInt64
from odfbuild.odf.schema.arrow_bytes import (
    InvalidArrowSchemaError,
    arrow_bytes,
    from_arrow_bytes,
)


def test_fields_that_share_their_parts_cannot_multiply_the_work() -> None:
    builder = Builder(1024)
    name = builder.CreateString("x" * 200)
    builder.StartObject(0)
    kind = builder.EndObject()
    field = 0
    for level in range(40):
        children = [field] * 8 if level else []
        builder.StartVector(4, len(children), 4)
        for child in children:
            builder.PrependUOffsetTRelative(child)
        vector = builder.EndVector()
        builder.StartObject(7)
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        builder.PrependUint8Slot(2, 13 if level else 6, 0)
        builder.PrependUOffsetTRelativeSlot(3, kind, 0)
        builder.PrependUOffsetTRelativeSlot(5, vector, 0)
        field = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(field)
    fields = builder.EndVector()
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, fields, 0)
    builder.Finish(builder.EndObject())
    with pytest.raises(InvalidArrowSchemaError, match="far more fields than it has bytes"):
        from_arrow_bytes(bytes(builder.Output()))


def test_the_reading_of_a_schema_loads_no_numpy() -> None:
    data = arrow_bytes(DataSchema((DataField("id", DataTypeInt64()),)))
    code = (
        "import sys; from odfbuild.odf.schema.arrow_bytes import *;"
        f"from_arrow_bytes({data!r}); sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
