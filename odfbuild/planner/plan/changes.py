"""Changes as users of a dataset see them: class, columns, and the rules that they meet.

Plain values, made by the assessment, carried by the plan, printed elsewhere.
"""

from dataclasses import field
from enum import Enum

from odfbuild.errors import SourceSpan
from odfbuild.odf.events import DataSchema
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.policy import Severity
from odfbuild.sql.query_class import QueryClass
from odfbuild.values import dataclass


class ChangeClass(Enum):
    """How far a change reaches, least first."""

    NONE = "none"
    METADATA = "metadata"
    DATA_ONLY = "data-only"
    ADDITIVE = "additive"
    RESTATING = "restating"
    BREAKING = "breaking"
    RETIRE = "retire"

    @property
    def rank(self) -> int:
        return list(ChangeClass).index(self)


class Judgement(Enum):
    """What the gate makes of one hit."""

    REFUSED = "refused"
    WARNED = "warned"
    ACCEPTED = "accepted"
    EXPIRED = "expired"  # refused, since the acceptance ran out
    PASSED = "passed"


class Usage(Enum):
    """How a query uses a column: its values come out, or it decides which rows do."""

    VALUE = "value"
    SHAPE = "shape"  # filter, join, grouping, window, order


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """One difference of two schemas at a path such as `address.street` or `tags[].name`.

    `kind` is one of added, removed, renamed, retyped, widened, required, optional, reordered;
    `before` and `after` are types as DDL, of a renamed column the names, None where there is none.
    `column` is the column of the table that the path leads into, "" for their order: names may have
    dots, too.  A saved plan has none of it.
    """

    path: str
    kind: str
    before: str | None
    after: str | None
    column: str = field(default="", compare=False)

    @property
    def is_nested(self) -> bool:
        """Say whether the path leads below a column of the table."""
        return self.path != self.column


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The data columns before and after (system columns apart, event time among them).

    None is a schema that is not there, or not known: then `unknown` says why.
    """

    before: DataSchema | None
    after: DataSchema | None
    columns: tuple[ColumnChange, ...] = ()
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Affected:
    """A dataset that reads, directly or not, what changed; and which of its columns that touches.

    `columns` are those of the reader; empty with `unknown` when they cannot be determined.
    """

    dataset: DatasetAlias
    columns: tuple[str, ...]
    usage: tuple[Usage, ...]
    unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A rule that applies to a change of one dataset, and what the gate makes of it.

    `column` is the path that it is about, None for the whole dataset; `ways` are the options, one
    command or edit each.
    """

    code: str
    name: str
    dataset: DatasetAlias
    column: str | None
    change: ChangeClass
    severity: Severity
    judged: Judgement
    message: str
    why: str
    ways: tuple[str, ...]
    span: SourceSpan | None
    accepted: str | None = None  # place and reason of the acceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """All that is said of the change of one dataset."""

    change: ChangeClass
    schema: SchemaChange | None = None
    hits: tuple[Hit, ...] = ()
    affected: tuple[Affected, ...] = ()
    query: QueryClass | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's answer for a whole plan; `gate` is strict, default or off.

    `errors` are those of definitions that cannot be carried out, for which `left_out` datasets are
    not in the plan; no gate lets them pass.
    """

    gate: str
    refused: int
    warned: int
    accepted: int
    errors: int = 0
    left_out: int = 0

    @property
    def passed(self) -> bool:
        return self.refused == 0 and self.errors == 0
