"""What is fed with bytes of ill will, and what has to hold of whatever comes out.

A target takes bytes and either reads them or is refused by an OdfBuildError; what was read survives
being written and read again.  Anything else that is raised is a finding.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.snapshot import from_bytes, to_bytes
from odfbuild.odf.chain.state import fold
from odfbuild.odf.events import DatasetSnapshot, MetadataBlock
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.writer import InvalidAttributesError, to_mapping
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.refs import (
    DatasetAlias,
    DatasetAliasRemote,
    parse_any_pattern,
    parse_any_ref,
    parse_dataset_ref,
    parse_push_target,
    parse_ref_pattern,
    parse_remote_ref,
)
from odfbuild.odf.schema.arrow_bytes import arrow_bytes, from_arrow_bytes
from odfbuild.odf.schema.ddl import parse_ddl, to_ddl
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import (
    block_hash,
    decode_block,
    decode_link,
    decode_table,
    encode_block,
    encode_table,
)
from odfbuild.project.read import read_manifests
from odfbuild.project.yaml import decode
from tests.fuzz import files, projects

__all__ = ["DEADLY", "TARGETS", "Target"]

Target = Callable[[bytes], None]


def block(data: bytes) -> None:
    """Read a block file."""
    with suppress(OdfBuildError):
        link = decode_link(data)
        read = decode_block(data)
        assert read.prev_block_hash == link
        _block_holds(read)
        with suppress(OdfBuildError):
            check_append(None, read)
            state = fold(None, read, block_hash(data))
            assert from_bytes(to_bytes(state)) == state


def content(data: bytes) -> None:
    """Read the table of a block, without the envelope that mutations mostly break."""
    with suppress(OdfBuildError):
        _block_holds(decode_table(MetadataBlock, data))


def _block_holds(read: MetadataBlock) -> None:
    with suppress(InvalidAttributesError):
        mapping = to_mapping(read)
        if not any(opaque_parts(read)):
            with suppress(OdfBuildError):
                assert to_mapping(from_mapping(MetadataBlock, mapping)) == mapping
    if not any(opaque_parts(read)):
        with suppress(OdfBuildError):
            written = encode_block(read)
            assert decode_block(written) == read
            assert encode_block(decode_block(written)) == written


def manifest(data: bytes) -> None:
    """Read the text of a project file."""
    with suppress(OdfBuildError):
        for each in read_manifests(decode(data, "f.yaml"), "f.yaml").declared:
            with suppress(OdfBuildError):
                written = encode_table(each.written)
                assert decode_table(DatasetSnapshot, written) == each.written
            again = from_mapping(DatasetSnapshot, to_mapping(each.written))
            assert again == each.written


_TEXTS: Final[tuple[Callable[[str], Any], ...]] = (
    DatasetAlias.parse,
    DatasetAliasRemote.parse,
    DatasetId.parse,
    Multihash.parse,
    Timestamp.parse,
    parse_any_pattern,
    parse_any_ref,
    parse_dataset_ref,
    parse_push_target,
    parse_ref_pattern,
    parse_remote_ref,
)


def reference(data: bytes) -> None:
    """Read the texts of names, ids, hashes and times."""
    text = data.decode("utf-8", "surrogateescape")
    for parse in _TEXTS:
        with suppress(OdfBuildError):
            read = parse(text)
            assert parse(str(read)) == read


def identity(data: bytes) -> None:
    """Read the bytes of ids and hashes."""
    for read in (DatasetId.from_bytes, Multihash.from_bytes):
        with suppress(OdfBuildError):
            assert read(data).to_bytes() == data


def arrow_schema(data: bytes) -> None:
    """Read a raw Arrow schema."""
    with suppress(OdfBuildError):
        schema = from_arrow_bytes(data)
        assert from_arrow_bytes(arrow_bytes(schema)) == schema


def ddl(data: bytes) -> None:
    """Read columns as DDL text."""
    with suppress(OdfBuildError):
        schema = parse_ddl(data.decode("utf-8", "surrogateescape"))
        assert parse_ddl(to_ddl(schema)) == schema


def state(data: bytes) -> None:
    """Read a chain state as the index keeps it."""
    with suppress(OdfBuildError):
        read = from_bytes(data)
        assert from_bytes(to_bytes(read)) == read


TARGETS: Final[Mapping[str, Target]] = {
    each.__name__: each
    for each in (
        block,
        content,
        manifest,
        reference,
        identity,
        arrow_schema,
        ddl,
        state,
        projects.project,
        projects.template,
        projects.selector,
        projects.plan,
        files.text,
        files.packed,
        files.parquet,
        files.shapefile,
    )
}
DEADLY: Final = frozenset({"parquet", "shapefile"})
"""What may end the process in which it runs."""
