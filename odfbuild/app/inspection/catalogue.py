"""Catalogue of a project: what definitions, chains and files of tests say of each dataset.

No row of any dataset is read, and no source is asked.  What cannot be read of one dataset is said
of it, and the others are as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.odf.chain.state import DEFAULT_VOCABULARY
from odfbuild.odf.events import (
    AddPushSource,
    DataSchema,
    DatasetKind,
    DatasetVocabulary,
    MetadataEvent,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.diff import KindChangedError, VocabChangedError, diff
from odfbuild.planner.evolution.columns.use import ColumnOrigins, ColumnUse
from odfbuild.planner.staleness import Lag, lag_of
from odfbuild.state.memory.applied import Applied, Result, recall_applied
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.testing.model import Fixture, RowCheck
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.events import MetadataBlock
    from odfbuild.odf.identity import Multihash
    from odfbuild.planner.declared import Declared
    from odfbuild.project.load import Project
    from odfbuild.project.opened import Opened
    from odfbuild.state.workspace import Workspace

_Event = TypeVar("_Event", bound=MetadataEvent)
Source = SetPollingSource | AddPushSource
TestKey = tuple[str, str, str]
"""A test by its kind (unit or data), its dataset and its name."""


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """What became of a test: passed, warned, failed or skipped.

    Of so many rows that were `looked` at, so many are `failing`.
    """

    outcome: str
    failing: int | None = None
    looked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The newest blocks of a chain, newest first, and how many older ones were not read.

    `problem` is what ended the walk before its time.
    """

    blocks: tuple[tuple[Multihash, MetadataBlock], ...] = ()
    older: int = 0
    problem: OdfBuildError | None = None


_NO_HISTORY = History()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """A dataset as far as it is known.

    `declared` is None of one that no definition is of, or whose definition is wrong; `state` of one
    that was never applied, or whose chain cannot be read: then `damage` says why.  `columns` are
    None where they are not known; `shaping` are the columns that decide on its rows.  `is_changed`
    says that the definition is not the one in force in the chain.  `result` is how its steps ended
    in the last apply from this machine.
    """

    alias: DatasetAlias
    declared: Declared | None = None
    state: ChainState | None = None
    id: DatasetId | None = None
    damage: OdfBuildError | None = None
    wrong: tuple[Diagnostic, ...] = ()
    columns: tuple[ColumnOrigins, ...] | None = None
    shaping: tuple[tuple[DatasetAlias, str], ...] | None = None
    schema: DataSchema | None = None
    lag: Lag | None = None
    is_changed: bool = False
    result: Result | None = None
    history: History = _NO_HISTORY
    checks: tuple[RowCheck, ...] = ()
    fixtures: tuple[Fixture, ...] = ()

    @property
    def kind(self) -> DatasetKind | None:
        """Root or derivative, as declared, else as the chain has it."""
        if self.declared is not None:
            return self.declared.snapshot.kind
        return None if self.state is None else self.state.kind

    @property
    def vocab(self) -> DatasetVocabulary:
        """The names of the system columns in the chain."""
        return DEFAULT_VOCABULARY if self.state is None else self.state.vocab

    @property
    def transform(self) -> SetTransform | None:
        """The transform that is declared, else the one in force."""
        return self._event(SetTransform, None if self.state is None else self.state.transform)

    @property
    def info(self) -> SetInfo | None:
        """Description and keywords that are declared, else those in force."""
        return self._event(SetInfo, None if self.state is None else self.state.info)

    @property
    def license(self) -> SetLicense | None:
        """The licence that is declared, else the one in force."""
        return self._event(SetLicense, None if self.state is None else self.state.license)

    @property
    def attachments(self) -> SetAttachments | None:
        """The attachments that are declared, else those in force."""
        return self._event(SetAttachments, None if self.state is None else self.state.attachments)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are declared, else those in force."""
        if self.declared is not None:
            events = self.declared.snapshot.metadata
            return tuple(e for e in events if isinstance(e, SetPollingSource | AddPushSource))
        return () if self.state is None else self.state.sources

    def _event(self, kind: type[_Event], in_force: _Event | None) -> _Event | None:
        if self.declared is None:
            return in_force
        return next((e for e in self.declared.snapshot.metadata if isinstance(e, kind)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The datasets, inputs before what reads them, then those that no definition is of.

    `folders` are those of this machine that the project and its workspace are in.  `unread` are
    problems of definitions without a readable name, `wrong_tests` those of files of tests, `damage`
    is what is damaged in the workspace and no dataset by its name.
    """

    project: str
    target: str
    entries: tuple[CatalogueEntry, ...]
    names: Mapping[DatasetId, DatasetAlias]
    outcomes: Mapping[TestKey, TestOutcome] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    unread: tuple[Diagnostic, ...] = ()
    wrong_tests: tuple[Diagnostic, ...] = ()
    damage: tuple[OdfBuildError, ...] = ()

    @property
    def is_applied(self) -> bool:
        """Say whether the workspace has any dataset of it."""
        return any(each.state is not None or each.damage is not None for each in self.entries)


def catalogue_of(
    project: Opened,
    loaded: Project,
    *,
    chosen: Collection[DatasetAlias] | None = None,
    blocks: int = 30,
    outcomes: Mapping[TestKey, TestOutcome] | None = None,
) -> Catalogue:
    """Return the catalogue of a project that was loaded, partly if need be.

    With `chosen`, those datasets are in it and no others.  Of each chain the newest `blocks` are
    read.  `outcomes` are those of its tests.
    """
    from odfbuild.app.load_project import locked_columns
    from odfbuild.app.plan.cache import engines
    from odfbuild.app.plan.input_history import rewritten_inputs
    from odfbuild.executors.engine.quick_columns import QuickColumns
    from odfbuild.executors.testing.files import load_tests

    workspace = project.workspace
    states, ids = workspace.states(), workspace.names()
    declared = {each.alias: each for each in loaded.sound}
    damage = workspace.damage()
    known = dict.fromkeys((*declared, *loaded.wrong, *sorted(ids), *_damaged_aliases(damage)))
    wanted = [each for each in known if chosen is None or each in chosen]
    tests = load_tests(project.root)
    facts = _Facts(
        declared=declared,
        wrong=loaded.wrong,
        states=states,
        by_id={each.dataset: each for each in states.values()},
        ids=ids,
        damage={alias: each for alias, each in damage.items() if isinstance(alias, DatasetAlias)},
        use=ColumnUse(
            loaded.sound, states, locked_columns(project.root, loaded.sound), QuickColumns(project)
        ),
        rewritten=rewritten_inputs(workspace, states),
        applied=recall_applied(workspace.root, wanted),
        checks=_by_dataset(tests.checks),
        fixtures=_by_dataset(tests.fixtures),
        engines=engines(project.config),
    )
    histories = {alias: _history(workspace, states.get(alias), blocks) for alias in wanted}
    return Catalogue(
        project=project.config.name,
        target=project.target,
        entries=tuple(facts.entry(alias, history) for alias, history in histories.items()),
        names={id: alias for alias, id in ids.items()},
        outcomes=outcomes or {},
        folders=(str(workspace.root), str(project.root)),
        unread=loaded.unread,
        wrong_tests=tests.found,
        damage=tuple(each for key, each in damage.items() if not isinstance(key, DatasetAlias)),
    )


_Test = TypeVar("_Test", "RowCheck", "Fixture")


def _by_dataset(tests: Iterable[_Test]) -> dict[DatasetAlias, list[_Test]]:
    found: dict[DatasetAlias, list[_Test]] = {}
    for each in tests:
        found.setdefault(each.dataset, []).append(each)
    return found


def _damaged_aliases(damage: Iterable[object]) -> list[DatasetAlias]:
    return sorted(each for each in damage if isinstance(each, DatasetAlias))


def _history(workspace: Workspace, state: ChainState | None, most: int) -> History:
    """Return the newest blocks of a chain, as far as they can be read."""
    from odfbuild.state.chain.refs import ancestry

    if state is None or most == 0:
        return History(older=0 if state is None else state.sequence + 1)
    found: list[tuple[Multihash, MetadataBlock]] = []
    problem: OdfBuildError | None = None
    try:
        for each in islice(ancestry(workspace.dataset(state.dataset), state.head), most):
            found.append(each)
    except OdfBuildError as error:
        problem = error
        workspace.note_damage(state.dataset, error)
    return History(
        blocks=tuple(found), older=max(state.sequence + 1 - len(found), 0), problem=problem
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What is known of all datasets, by their names."""

    declared: Mapping[DatasetAlias, Declared]
    wrong: Mapping[DatasetAlias, Sequence[Diagnostic]]
    states: Mapping[DatasetAlias, ChainState]
    by_id: Mapping[DatasetId, ChainState]
    ids: Mapping[DatasetAlias, DatasetId]
    damage: Mapping[DatasetAlias, OdfBuildError]
    use: ColumnUse
    rewritten: Mapping[DatasetAlias, frozenset[DatasetId]]
    applied: Mapping[DatasetAlias, Applied]
    checks: Mapping[DatasetAlias, Sequence[RowCheck]]
    fixtures: Mapping[DatasetAlias, Sequence[Fixture]]
    engines: Mapping[str, str]

    def entry(self, alias: DatasetAlias, history: History) -> CatalogueEntry:
        """Return what is known of one dataset."""
        state, declared = self.states.get(alias), self.declared.get(alias)
        rewritten, applied = self.rewritten.get(alias, frozenset()), self.applied.get(alias)
        return CatalogueEntry(
            alias=alias,
            declared=declared,
            state=state,
            id=self.ids.get(alias),
            damage=self.damage.get(alias),
            wrong=tuple(self.wrong.get(alias, ())),
            columns=self.use.made(alias),
            shaping=self.use.shaping(alias),
            schema=self.use.schema(alias),
            lag=None if state is None else lag_of(state, self.by_id, rewritten),
            is_changed=self._differs(declared, state),
            result=None if applied is None else applied.result,
            history=history,
            checks=tuple(self.checks.get(alias, ())),
            fixtures=tuple(self.fixtures.get(alias, ())),
        )

    def _differs(self, declared: Declared | None, state: ChainState | None) -> bool:
        """Say whether the definition is not the one in force in the chain, if there are both."""
        if declared is None or state is None:
            return False

        def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
            return self.ids.get(ref, ref) if isinstance(ref, DatasetAlias) else ref

        try:
            return bool(diff(declared.snapshot, state, resolve, self.engines))
        except (KindChangedError, VocabChangedError):
            return True
