"""Reset, compaction or rebuild of one dataset: worked out, then done or not."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from odfbuild.app.maintenance.rebuild_engines import (
    RebuildEngines,
    rebuild_engines,
    version_upgrade,
)
from odfbuild.errors import PlanError, ProjectErrors
from odfbuild.odf.chain.state import ChainState, plain_version
from odfbuild.odf.events import DatasetKind, MetadataEvent, SetPollingSource, SetTransform
from odfbuild.odf.identity import DatasetId, InvalidMultihashError, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import polling_of
from odfbuild.planner.maintenance.compaction import (
    ChainRewrite,
    Keep,
    Limits,
    Merge,
    compacted,
    metadata_only,
)
from odfbuild.planner.maintenance.rewrite import (
    COMPACT,
    FULL,
    HARD,
    REBUILD,
    RESET,
    Housekeeping,
    dropped,
    extent,
    extent_after,
    stranded,
)
from odfbuild.planner.plan import OutsideUse
from odfbuild.planner.plan.places import EnginePlace, places_of
from odfbuild.planner.saved import canonical
from odfbuild.planner.staleness import InputNow, next_watermark, records
from odfbuild.project.opened import Opened, find_dataset, find_name
from odfbuild.state.chain.dataset import Dataset, NoteState
from odfbuild.state.chain.refs import UnknownBlockError, find_block
from odfbuild.state.memory.applied import record_applied
from odfbuild.state.memory.read_files import note_rewritten
from odfbuild.state.partial_inputs import check_target
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.app.maintenance.full_rebuild import NewChain
    from odfbuild.executors.engine.context import Round, Site
    from odfbuild.planner.declared import Declared

_OF_SPARK: Final = frozenset({"master", "store"})


class NoDerivativeError(PlanError):
    """A dataset that is not a derivative cannot be rebuilt."""

    code = "no-derivative"


@dataclass(frozen=True, slots=True)
class Reset:
    """Make a block the last one: a name of it as `find_block` takes it, its whole hash, or a time.

    Of a time, that is the last block that is no later.
    """

    block: str | Timestamp


@dataclass(frozen=True, slots=True)
class Compaction:
    """Merge slices up to limits (`hard`), or drop all data (`keep-metadata-only`)."""

    mode: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Drop the data of a dataset, and rebuild it from its inputs, by the query in force.

    Where another version of its engine is installed, that is recorded and used.  With the
    `definitions` of the project it begins a new chain: by its definition, and a root is read from
    its source again.  `engines` are then those that there are, with their versions.
    """

    definitions: "Mapping[DatasetAlias, Declared] | None" = None
    engines: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Say whether a new chain is begun."""
        return self.definitions is not None


Wish: TypeAlias = Reset | Compaction | Rebuild
_States: TypeAlias = Mapping[DatasetAlias, ChainState]


@dataclass(frozen=True, slots=True)
class PreparedRewrite:
    """What will be done, with what is needed to do it; `on` is the state that it was made from."""

    housekeeping: Housekeeping
    rewrite: ChainRewrite | None
    on: ChainState
    wish: Wish
    chain: "NewChain | None" = None


@dataclass(frozen=True, slots=True)
class _RewrittenChain:
    """A dataset as it stands: its blocks, oldest first."""

    dataset: Dataset
    state: ChainState
    blocks: Mapping[Multihash, MetadataEvent]


def prepare(
    project: Opened, name: str, wish: Wish, states: Mapping[DatasetAlias, ChainState] | None = None
) -> PreparedRewrite | None:
    """Work out what a wish does to a dataset; None if there is nothing to do.

    `states` are those of all datasets when it is done, and where rebuilds are carried out is then
    yet to be added (`with_places`); without them, as they are now.

    Raises StateError if there is no such dataset or block, PartialInputError for a reset to the
    inside of an input, KindCompactedError when slices of a
    derivative would be merged, NoDerivativeError when a root would be rebuilt, ProjectErrors when
    another version of an engine would be recorded than is asked for.
    """
    if states is None:
        made = prepare(project, name, wish, project.workspace.states())
        return None if made is None else with_places(project, [made])[0]
    chain = _read(find_dataset(project, name))
    common: dict[str, Any] = {
        "alias": find_name(project, name),
        "id": chain.dataset.id,
        "kind": chain.state.kind,
        "project": project.config.name,
        "target": project.target,
        "workspace": project.config.target(project.target).workspace,
        "based_on": chain.state.head,
        "before": extent(chain.blocks.values()),
    }
    if isinstance(wish, Reset):
        return _reset(chain, wish, common, states)
    if isinstance(wish, Rebuild):
        make = _rebuild if wish.definitions is None else _full_rebuild
        made = make(chain, wish, common, states)
        if made is not None and made.housekeeping.versions is not None:
            _check_asked_version(project, common["alias"])
        return made
    return _compaction(chain, wish, common, states)


def _check_asked_version(project: Opened, alias: DatasetAlias) -> None:
    """Refuse to record another version of an engine than the definition of a dataset asks for.

    Raises ProjectErrors, also if the project cannot be read.
    """
    from odfbuild.app.load_project import load
    from odfbuild.app.plan.cache import engines
    from odfbuild.planner.diff.asked_version import asked_version_problems

    for each in load(project, partly=True).declared:
        if each.alias == alias:
            found = tuple(asked_version_problems(each, None, engines(project.config)))
            if found:
                raise ProjectErrors(found)


def with_places(project: Opened, steps: Sequence[PreparedRewrite]) -> tuple[PreparedRewrite, ...]:
    """Return prepared steps with where rebuilds are carried out, as they are reviewed and saved.

    Raises ProjectErrors if the tags of datasets cannot be read.
    """
    from odfbuild.app.outside_use import uses_of_run
    from odfbuild.app.plan.planned_places import rebuild_places

    found: dict[DatasetAlias, SetTransform | SetPollingSource] = {}
    for step in steps:
        definition = _definition(step)
        if definition is not None:
            found[step.housekeeping.alias] = definition
    places = rebuild_places(project, found)
    uses = uses_of_run(project.config, project.target) if found else ()
    outside = tuple(OutsideUse(kind, name) for kind, name in uses if kind in _OF_SPARK)
    return tuple(_with_places(step, places, outside) for step in steps)


def _with_places(
    step: PreparedRewrite, places: Sequence[EnginePlace], outside: tuple[OutsideUse, ...]
) -> PreparedRewrite:
    if step.housekeeping.work != REBUILD:
        return step
    own = places_of(places, {step.housekeeping.alias})
    return replace(step, housekeeping=replace(step.housekeeping, places=own, outside=outside))


def _definition(step: PreparedRewrite) -> SetTransform | SetPollingSource | None:
    """Return what a rebuild makes rows by; None if that is nothing, or it is no rebuild."""
    if step.housekeeping.work != REBUILD:
        return None
    if step.chain is None:
        return step.on.transform
    kinds = SetTransform | SetPollingSource
    return next((each for each in step.chain.events if isinstance(each, kinds)), None)


def check_files(
    project: Opened, prepared: PreparedRewrite, rebuilt: Collection[DatasetId] = ()
) -> None:
    """Refuse what `carry_out` would for what it reads: damaged files, events of a newer version.

    Inputs that are `rebuilt` before have no files yet.  What the query of a rebuild makes of its
    inputs only running it shows.
    """
    from odfbuild.executors.data.checks.verified_files import all_files, data_files
    from odfbuild.odf.opaque import refuse_opaque

    dataset = project.workspace.dataset(prepared.housekeeping.id)
    for part in () if prepared.rewrite is None else prepared.rewrite.parts:
        match part:
            case Keep(event=event):
                refuse_opaque(event)
            case Merge(slices=slices):
                data_files(dataset, slices, f"the dataset {dataset.id}")
    transform = prepared.on.transform if prepared.chain is None else prepared.chain.transform
    if prepared.housekeeping.work == REBUILD and transform is not None:
        for given in transform.inputs:
            if isinstance(given.dataset_ref, DatasetId) and given.dataset_ref not in rebuilt:
                read = project.workspace.dataset(given.dataset_ref)
                all_files(read, owner=f"the input {given.alias or given.dataset_ref}")


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """The new head of a dataset; `place` is the engine elsewhere that made its rows, if one did."""

    head: Multihash
    place: str | None = None


def carry_out(
    project: Opened, prepared: PreparedRewrite, engines: RebuildEngines | None = None
) -> CarriedOut:
    """Do what was prepared; without engines, some are opened if needed.

    Raises HeadMovedError, with nothing done, when the dataset moved since.  A rebuild that fails
    leaves the dataset as it was, and raises the error of its step.
    """
    if engines is None and prepared.housekeeping.work == REBUILD:
        with rebuild_engines(project, prepared.housekeeping.places) as opened:
            return carry_out(project, prepared, opened)
    housekeeping = prepared.housekeeping
    dataset = project.workspace.dataset(housekeeping.id)
    place = None
    if prepared.rewrite is None:
        assert housekeeping.head is not None  # noqa: S101 - a reset knows where it goes
        head = housekeeping.head
        dataset.set_head(head, prepared.on.head)
    else:
        rebuilds = housekeeping.work == REBUILD
        written = dataset.aside() if rebuilds else dataset
        noting = _files_noted(project, prepared)
        head = _rewritten(project, written, prepared.rewrite, prepared.on, noting).head
        if engines is not None and rebuilds:
            made = _made_anew(project, written, engines, prepared)
            head, place = (head, None) if made is None else (made.head, made.place)
            dataset.set_head(head, prepared.on.head)
    record_applied(project.workspace, {housekeeping.alias: "ok"})
    return CarriedOut(head, place)


def _files_noted(project: Opened, prepared: PreparedRewrite) -> NoteState | None:
    """Return what notes the files of a root, whose names a compaction takes out of a chain."""
    if prepared.on.polling is None or not prepared.on.source_state:
        return None
    if prepared.chain is not None:  # which reads them again
        return None
    from odfbuild.executors.ingest.fetch.late_files import read_files

    read = read_files(project.workspace, prepared.on)
    return partial(note_rewritten, project.workspace.root, prepared.housekeeping.id, read)


def _rewritten(
    project: Opened,
    dataset: Dataset,
    rewrite: ChainRewrite,
    on: ChainState,
    noting: NoteState | None,
) -> ChainState:
    from odfbuild.app.maintenance.compaction import rewrite_chain

    now = Timestamp.from_millis(time_ns() // 1_000_000)
    with project.workspace.staging() as staging:
        return rewrite_chain(dataset, rewrite, staging, on=on, now=now, noting=noting)


def _made_anew(
    project: Opened, dataset: Dataset, engines: RebuildEngines, prepared: PreparedRewrite
) -> CarriedOut | None:
    """Run the step of a dataset without data; return the new head, None if nothing was made.

    Raises EmptySourceError if a root had records and would have none.
    """
    from odfbuild.app.apply_plan import site_of
    from odfbuild.executors.transform.step import transform

    chain = prepared.chain
    site = replace(site_of(project, engines.engine), placement=engines.placement)
    rounds: list[Round] = []
    try:
        engines.prepare(
            prepared.housekeeping.alias,
            prepared.on.transform if chain is None else chain.transform,
            None if chain is None else polling_of(chain.declared),
        )
        if chain is not None and chain.transform is None:
            return CarriedOut(_read_anew(site, dataset, prepared, chain))
        made = transform(site, dataset, rounds.append)
    except (KeyboardInterrupt, SystemExit):  # after an error they have others to rebuild
        site.cancel()
        raise
    return None if made is None else CarriedOut(made.head, rounds[-1].place)


def _read_anew(
    site: "Site", dataset: Dataset, prepared: PreparedRewrite, chain: "NewChain"
) -> Multihash:
    from odfbuild.app.maintenance.full_rebuild import EmptySourceError
    from odfbuild.executors.ingest.poll import ingest

    ingest(site, dataset, lambda _: None, chain.declared.traits.ingest)
    state = dataset.state()
    assert state is not None  # noqa: S101 - it has a Seed
    if state.last_offset is None and prepared.on.last_offset is not None:
        raise EmptySourceError(records(prepared.on.last_offset))
    return state.head


def _read(dataset: Dataset, upto: Multihash | None = None) -> _RewrittenChain:
    state = dataset.state(upto)
    assert state is not None  # noqa: S101 - it was found by its head
    blocks = {hash: block.event for hash, block in dataset.blocks(upto=state.head)}
    return _RewrittenChain(dataset, state, blocks)


def _reset(
    chain: _RewrittenChain, wish: Reset, common: Mapping[str, Any], states: _States
) -> PreparedRewrite | None:
    to = _block(chain.dataset, common["alias"], wish.block)
    if to == chain.state.head:
        return None
    check_target(chain.dataset, to, chain.state.head, str(common["alias"]))
    after = _read(chain.dataset, to)
    vanishing = chain.blocks.keys() - after.blocks.keys()
    housekeeping = Housekeeping(
        **common,
        work=RESET,
        head=to,
        kept=len(chain.blocks) - len(vanishing),
        after=extent(after.blocks.values()),
        watermarks=(chain.state.watermark, after.state.watermark),
        dropped=dropped(chain.blocks.values(), after.blocks.values()),
        stranded=stranded(chain.dataset.id, vanishing, states),
    )
    return PreparedRewrite(housekeeping, None, chain.state, wish)


def _block(dataset: Dataset, alias: DatasetAlias, text: str | Timestamp) -> Multihash:
    """Return the block of a text; a whole hash may be that of a block that was given up before."""
    if isinstance(text, Timestamp):
        at = deque((hash for hash, b in dataset.blocks() if b.system_time <= text), maxlen=1)
        if not at:
            raise UnknownBlockError(
                what=f"{alias} had no block yet at {text}",
                why="its first block is later",
                fix=f"exclude it: --exclude {alias}",
            )
        return at[0]
    try:
        found = Multihash.parse(text)
    except InvalidMultihashError:
        return find_block(dataset, text)
    return found if dataset.stores.blocks.has(found) else find_block(dataset, text)


def _compaction(
    chain: _RewrittenChain, wish: Compaction, common: Mapping[str, Any], states: _States
) -> PreparedRewrite | None:
    events, hard = tuple(chain.blocks.values()), wish.mode == HARD
    rewrite = compacted(chain.state.kind, events, wish.limits) if hard else metadata_only(events)
    if rewrite is None:
        return None
    watermark = chain.state.watermark
    vanishing = frozenset(tuple(chain.blocks)[rewrite.kept :])
    housekeeping = Housekeeping(
        **common,
        work=COMPACT,
        mode=wish.mode,
        limits=wish.limits if hard else None,
        kept=rewrite.kept,
        after=extent_after(events, rewrite),
        watermarks=(watermark, watermark if hard else None),
        dropped={} if hard else dropped(events, _remaining_events(events, rewrite)),
        stranded=stranded(chain.dataset.id, vanishing, states),
    )
    return PreparedRewrite(housekeeping, rewrite, chain.state, wish)


def _rebuild(
    chain: _RewrittenChain, wish: Rebuild, common: Mapping[str, Any], states: _States
) -> PreparedRewrite | None:
    if chain.state.kind is not DatasetKind.DERIVATIVE:
        raise NoDerivativeError(
            what=f"{common['alias']} is a root dataset: it cannot be rebuilt from other datasets",
            why="its source may no longer have its records",
            fix=f"to read its source again: odfbuild rebuild {common['alias']} --full",
        )
    events = tuple(chain.blocks.values())
    rewrite = metadata_only(events)
    if rewrite is None:
        return None
    inputs = _inputs(chain.state, states)
    emptied = replace(chain.state, watermark=None)
    upgrade = version_upgrade(chain.state)
    if upgrade is not None:
        rewrite = replace(rewrite, parts=(*rewrite.parts, Keep(upgrade)))
    housekeeping = Housekeeping(
        **common,
        work=REBUILD,
        kept=rewrite.kept,
        after=extent_after(events, rewrite),
        watermarks=(chain.state.watermark, next_watermark(emptied, inputs)),
        dropped=dropped(events, _remaining_events(events, rewrite)),
        stranded=stranded(chain.dataset.id, frozenset(tuple(chain.blocks)[rewrite.kept :]), states),
        reads={each.alias: records(each.state.last_offset) for each in inputs},
        versions=None if upgrade is None else _versions(chain.state.transform, upgrade),
    )
    return PreparedRewrite(housekeeping, rewrite, chain.state, wish)


def _versions(known: SetTransform | None, upgrade: SetTransform) -> tuple[str, str]:
    """Return the versions of the engine before and after an upgrade."""
    recorded = "" if known is None else known.transform.version
    return plain_version(recorded or ""), plain_version(upgrade.transform.version or "")


def _full_rebuild(
    chain: _RewrittenChain, wish: Rebuild, common: Mapping[str, Any], states: _States
) -> PreparedRewrite | None:
    from odfbuild.app.maintenance.full_rebuild import new_chain
    from odfbuild.odf.manifest.writer import to_mapping

    hashes, events = tuple(chain.blocks), tuple(chain.blocks.values())
    seed = chain.dataset.state(hashes[0])
    assert seed is not None and wish.definitions is not None  # noqa: S101 - it has a Seed
    made = new_chain(common["alias"], seed, wish.definitions, states, wish.engines)
    rewrite = ChainRewrite(1, tuple(map(Keep, made.events)))
    inputs = _inputs(replace(chain.state, transform=made.transform), states)
    forms = {"metadata": [to_mapping(event) for event in made.events]}
    housekeeping = Housekeeping(
        **common,
        work=REBUILD,
        mode=FULL,
        kept=rewrite.kept,
        after=extent_after(events, rewrite),
        watermarks=(chain.state.watermark, next_watermark(seed, inputs)),
        dropped=dropped(events, _remaining_events(events, rewrite)),
        stranded=stranded(chain.dataset.id, frozenset(hashes[1:]), states),
        reads={each.alias: records(each.state.last_offset) for each in inputs},
        definition=sha3_256(canonical(forms).encode()),
    )
    return PreparedRewrite(housekeeping, rewrite, chain.state, wish, made)


def _inputs(state: ChainState, states: _States) -> list[InputNow]:
    """Return the inputs of a dataset that are in the workspace, by the names that they have."""
    known = {each.dataset: (str(alias), each) for alias, each in states.items()}
    sources = () if state.transform is None else state.transform.inputs
    found = (
        known.get(each.dataset_ref) for each in sources if isinstance(each.dataset_ref, DatasetId)
    )
    return [InputNow(*each) for each in found if each is not None]


def _remaining_events(
    events: tuple[MetadataEvent, ...], rewrite: ChainRewrite
) -> list[MetadataEvent]:
    kept = [part.event for part in rewrite.parts if isinstance(part, Keep)]
    return [*events[: rewrite.kept], *kept]
