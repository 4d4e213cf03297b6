"""A block of a chain as text: hash, number, time, then the event as YAML."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from odfbuild.cli.printable import printable
from odfbuild.errors import ProtocolError
from odfbuild.odf.chain_schema import schema_of
from odfbuild.odf.ddl_writer import to_ddl
from odfbuild.odf.events import MetadataBlock, SetDataSchema
from odfbuild.odf.identity import Multihash
from odfbuild.odf.manifest import to_mapping
from odfbuild.odf.yaml_text import yaml_text
from odfbuild.redaction import blanked

__all__ = ["block_text"]


def block_text(block_hash: Multihash, block: MetadataBlock) -> str:
    """Return one block for people, without credentials; of an Arrow schema its columns."""
    event = blanked(to_mapping(block.event))
    kind = event.pop("kind")
    if isinstance(block.event, SetDataSchema):
        with suppress(ProtocolError):  # it may hold types that DDL has no words for
            event = {"columns": list(to_ddl(schema_of(block.event)))}
    lines = [
        f"block {block_hash}",
        f"  {block.sequence_number}  {block.system_time}  {kind}",
        *_yaml(event, 4),
        "",
    ]
    return "\n".join(lines) + "\n"


def _yaml(value: Mapping[str, Any], indent: int) -> list[str]:
    lines = yaml_text(value).splitlines() if value else []
    return [" " * indent + printable(line) for line in lines]
