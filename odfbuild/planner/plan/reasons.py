"""Reasons of steps: values recorded where the decision is made; `cli/render/words.py` has texts."""

from typing import TypeAlias

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class NotYetCreated:
    """The dataset is declared at `place` and not in the workspace."""

    place: str


@dataclass(frozen=True, slots=True)
class DefinitionChanged:
    """The declared event at `place` differs from the one in force; `event` is its kind."""

    event: str
    place: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """The project says at `place` that the dataset was called `old`."""

    old: DatasetAlias
    place: str


@dataclass(frozen=True, slots=True)
class FirstRun:
    """Nothing was ever read into the dataset."""


@dataclass(frozen=True, slots=True)
class SourceHasNews:
    """A local source holds files that were not ingested yet, in the order in which they will be.

    A source that is not there stands for itself, by a path with a slash or a `file:` url, which no
    name of a file is; so does one whose name is known once it is read only.
    """

    names: tuple[str, ...]

    @property
    def is_absent(self) -> bool:
        """Tell whether no file to read yet: what stands here is where one is looked for."""
        first = self.names[0]
        sought = "/" in first or first.startswith("file:")
        return len(self.names) == 1 and sought and "${{" not in first


@dataclass(frozen=True, slots=True)
class FilesPassedOver:
    """Files that the order of a source passes over are read by a rule, in this order.

    The rule is `late`, or `changed`: corrected files are read again, and those read after them.
    """

    rule: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceToAsk:
    """Only the fetch can tell whether the source at `origin` has news."""

    origin: str


@dataclass(frozen=True, slots=True)
class WatermarkDue:
    """The watermark is earlier than its age allows, or there is none."""

    before: Timestamp | None
    after: Timestamp


@dataclass(frozen=True, slots=True)
class NotYetPulled:
    """A dataset of a repository that is read is not in the workspace."""

    origin: str


@dataclass(frozen=True, slots=True)
class RepositoryAdvanced:
    """A repository has blocks of a dataset that the workspace lacks."""

    origin: str


@dataclass(frozen=True, slots=True)
class RepositoryToAsk:
    """Only a look at the repository can tell whether it has more of a dataset."""

    origin: str


@dataclass(frozen=True, slots=True)
class InputAdvanced:
    """An input holds records, or the inputs a watermark, that the output has not consumed.

    `consumed` and `present` are last offsets (None: no record); `watermark` is the one that the
    output would reach, None if it would not move.
    """

    dataset: DatasetId
    alias: str
    consumed: int | None
    present: int | None
    watermark: Timestamp | None


@dataclass(frozen=True, slots=True)
class InputMayAdvance:
    """A step of this plan may give the input new records."""

    dataset: DatasetAlias


@dataclass(frozen=True, slots=True)
class InputRewritten:
    """The chain of an input no longer holds the block that was read last: the step cannot run."""

    dataset: DatasetId
    alias: str


@dataclass(frozen=True, slots=True)
class HistoryRestated:
    """The query has yet to correct what was written before it: so many records."""

    records: int


Reason: TypeAlias = (
    NotYetCreated
    | DefinitionChanged
    | Renamed
    | FirstRun
    | SourceHasNews
    | FilesPassedOver
    | SourceToAsk
    | WatermarkDue
    | InputAdvanced
    | InputMayAdvance
    | InputRewritten
    | HistoryRestated
    | NotYetPulled
    | RepositoryAdvanced
    | RepositoryToAsk
)
