"""Sample of a file: how it is read, and its columns with their first values."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from odfbuild.errors import ProjectError
from odfbuild.values import dataclass

Plain: TypeAlias = Any
"""A value as YAML has it."""


class UnsampledError(ProjectError):
    """A sample is not readable data, or is too small to infer columns."""

    code = "no-sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledColumn:
    """A column: its type as Arrow has it, and its values in the sample as they are written."""

    name: str
    type: Any
    values: Sequence[object]

    @property
    def ddl(self) -> str:
        """The column as a read schema declares it."""
        import pyarrow as pa

        from odfbuild.odf.schema.arrow import from_arrow
        from odfbuild.odf.schema.ddl import to_ddl

        return to_ddl(from_arrow(pa.schema([pa.field(self.name, self.type)])))[0]

    @property
    def is_time(self) -> bool:
        import pyarrow as pa

        return bool(pa.types.is_date(self.type) or pa.types.is_timestamp(self.type))

    @property
    def is_key(self) -> bool:
        """Tell whether each row has a value of its own here, of a type that keys may have."""
        import pyarrow as pa

        return (
            len(self.values) > 0
            and not pa.types.is_nested(self.type)
            and not pa.types.is_floating(self.type)
            and not pa.types.is_boolean(self.type)
            and None not in self.values
            and len(set(map(str, self.values))) == len(self.values)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How a file is read: `read` and `prepare` as a manifest has them, but for the schema.

    `query` is what makes `columns` of `read_as`, the columns as read, when they differ.  `notes`
    are what should be looked at.
    """

    read: Mapping[str, Plain]
    columns: tuple[SampledColumn, ...]
    rows: int
    notes: tuple[str, ...] = ()
    prepare: Sequence[Mapping[str, Plain]] = ()
    read_as: tuple[SampledColumn, ...] | None = None
    query: str | None = None
