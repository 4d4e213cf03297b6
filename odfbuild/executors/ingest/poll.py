"""Polling: rounds over a source, each file one commit of one slice.

fetch -> prepare -> read -> add.  A round that fails leaves the rounds before it, and the chain
untouched by itself.  One that loses the race for the head is done again on the new one.  Small
files of a glob go through the engine together where that makes no difference; if one of them fails
there, they go one by one up to it.

Thousands of small files would be thousands of small jobs.  Where each row of a file is handled for
itself, one job for many files gives what one job for each would: a preprocess query that works row
by row, and a merge that compares with nothing, or with keys alone.  Each file still is a commit of
its own, in its own order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odfbuild.errors import Diagnostic, EngineError, InternalError, Level, OdfBuildError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.context import EMPTY_INPUT, InputNotes, Round, Site
from odfbuild.executors.ingest.cache_forever import is_cached_forever
from odfbuild.executors.ingest.commit import (
    InputCommit,
    Intake,
    Receiver,
    add,
    add_merged,
    add_together,
    say_where,
)
from odfbuild.executors.ingest.elsewhere.source_placement import SourcePlacement
from odfbuild.executors.ingest.fetch.download import sweep
from odfbuild.executors.ingest.fetch.late_files import SourceFiles
from odfbuild.executors.ingest.fetch.local import SOURCE_NAME
from odfbuild.executors.ingest.fetch.request import MissingSourceFileError
from odfbuild.executors.ingest.fetch.secrets import secrets_of
from odfbuild.executors.ingest.fetch.source import Fetched, UpToDate, fetch, named_file
from odfbuild.executors.ingest.prepare import PipeError, Surroundings, prepare
from odfbuild.executors.ingest.read.column_policy import read_columns
from odfbuild.executors.process.interrupt import Enough, StoppedError
from odfbuild.odf.chain.partial_inputs import is_partial
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import (
    FetchStepFilesGlob,
    SetPollingSource,
    SourceState,
    Transform,
)
from odfbuild.odf.merge_strategies import name_of, only_adds, traits_of
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.timestamp import InvalidTimestampError
from odfbuild.planner.plan.policy import AS_USUAL, EmptyInputs, IngestOptions
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import ATTEMPTS, HeadMovedError
from odfbuild.state.disabled import DisabledSourceError, is_disabled
from odfbuild.state.partial_inputs import in_part
from odfbuild.texts.redaction import hiding
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import RemoteIngest
    from odfbuild.executors.ingest.fetch.late_files import ReadingNote

MOST_FILES: Final = 256
MOST_BYTES: Final = 16 << 20
"""How much one job takes, in files and in bytes of rows in memory."""


def goes_together(source: SetPollingSource) -> bool:
    """Tell whether several files of a source may be taken in by one job."""
    return (
        isinstance(source.fetch, FetchStepFilesGlob)
        and only_adds(source.merge)
        and _is_by_row(source.preprocess)
    )


def has_room(frames: Sequence[Frame], size: int) -> bool:
    """Tell whether a file of so many bytes is worth reading, to follow those before it.

    What was read and then does not fit is read again in its own turn.
    """
    tables = [frame.table for frame in frames if frame.table is not None]
    if len(tables) < len(frames) or len(frames) >= MOST_FILES:
        return False
    held: int = sum(table.nbytes for table in tables)
    return held + size < MOST_BYTES


def may_follow(frames: Sequence[Frame], following: Frame) -> bool:
    """Tell whether a file's rows fit beside those of the files before it."""
    tables = [frame.table for frame in (*frames, following)]
    if any(table is None for table in tables):
        return False
    if sum(table.nbytes for table in tables if table is not None) > MOST_BYTES:
        return False
    return all(frame.schema.equals(following.schema) for frame in frames[:1])


def _is_by_row(preprocess: Transform | None) -> bool:
    if preprocess is None:
        return True
    from odfbuild.planner.queries import PREPROCESS_INPUT
    from odfbuild.sql.analysis.facts import examine
    from odfbuild.sql.text.steps import steps_of

    facts = examine(steps_of(preprocess), [PREPROCESS_INPUT])
    return not facts.findings and not facts.ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Polling:
    """One round: who receives, from which source, and where its downloads are kept."""

    receiver: Receiver
    source: SetPollingSource
    folder: Path
    files: SourceFiles
    placement: SourcePlacement

    @property
    def known(self) -> SourceState | None:
        """Return what the chain remembers of the source."""
        return self.receiver.state.source_state.get(SOURCE_NAME)


def ingest(
    site: Site,
    dataset: Dataset,
    done: Callable[[Round], None],
    options: IngestOptions = AS_USUAL,
) -> None:
    """Poll the dataset's source until it has nothing new; `done` hears of every commit.

    Raises UnsupportedVariantError for a source of a newer version of the format,
    DisabledSourceError for one that waits for its user's word, PartialInputError for a chain that
    ends inside of an input, and the errors of fetching, reading, the engine and the commit; earlier
    rounds stand.
    """
    files = SourceFiles(site.workspace, dataset, site.project_dir)
    folder = site.workspace.cache / "fetch" / dataset.id.multibase
    placement = SourcePlacement(site, dataset)
    more, one_by_one, lost = True, False, 0
    reread: list[list[Path]] | None = None
    while more:
        state = dataset.state()
        if state is None or state.polling is None:
            return
        refuse_opaque(state.polling)
        _refuse_disabled(site, dataset, state.polling)
        if is_partial(state.last_add_data):
            raise in_part(dataset, state, _name(site, dataset))
        receiver = Receiver(
            site=site,
            dataset=dataset,
            state=state,
            source=state.polling,
            source_name=SOURCE_NAME,
            now=max(site.clock(), state.system_time),
            options=options,
        )
        polling = _Polling(
            receiver=receiver,
            source=state.polling,
            folder=folder,
            files=files,
            placement=placement,
        )
        together = not one_by_one and goes_together(state.polling)
        if reread is None:
            reread = files.reread(
                state.polling,
                state,
                options.reread,
                lambda path: site.permissions.check_path(path, site.project_dir),
            )
            placement.reads_again(path for group in reread for path in group)
        try:
            with hiding(secrets_of(state.polling.fetch, site.env)):
                if reread:
                    _reread(polling, reread[0], done)
                    del reread[0]
                    continue
                more = _round(polling, done, together=together)
            lost = 0
        except _FailedTogether:
            one_by_one = True
        except HeadMovedError as error:
            reread = None
            lost += 1
            if lost == ATTEMPTS or error.actual is None:
                raise


def _name(site: Site, dataset: Dataset) -> str:
    named = (str(name) for name, id in site.workspace.names().items() if id == dataset.id)
    return next(named, str(dataset.id))


def _refuse_disabled(site: Site, dataset: Dataset, source: SetPollingSource) -> None:
    """Refuse a source that came with a chain from elsewhere, whatever the plan says of it."""
    marks = site.workspace.disabled(dataset.id)
    if is_disabled(marks, dataset.id, source):
        raise DisabledSourceError(
            what=f"the source of {dataset.id} is not used",
            why="it came with a chain from elsewhere, and may read and run what its author likes",
            fix="odfbuild import NAME --with-sources, if you trust it; then plan again",
        )


class _FailedTogether(Exception):
    """The engine refused several files, which go one by one then; nothing was committed."""


def _round(polling: _Polling, done: Callable[[Round], None], *, together: bool) -> bool:
    """Do one round; say whether the source has more.

    That no file is there yet is said, and is no failure.
    """
    if is_cached_forever(polling.receiver.dataset, polling.source.fetch):
        return False
    try:
        fetched = _fetch(polling, polling.known)
    except MissingSourceFileError as error:
        absent = replace(error.diagnostics()[0], level=Level.WARNING)  # it may yet come
        done(Round("", 0, 0, InputNotes(absent=absent)))
        return False
    if isinstance(fetched, UpToDate):
        sweep(polling.folder)
        return False
    try:
        last = _take_in(polling, fetched, done, together=together)
    except OdfBuildError as error:
        _keep(fetched, error, polling.folder)
        raise
    sweep(polling.folder)
    return last.has_more


def _reread(polling: _Polling, paths: list[Path], done: Callable[[Round], None]) -> None:
    """Read files that the order of the source passes over; its state stays as it is.

    The head moves once, after the last one: none of them counts while those after it are missing.
    """
    receiver = polling.receiver
    assert isinstance(polling.source.fetch, FetchStepFilesGlob)  # noqa: S101 - nothing else has any
    assert polling.known is not None  # noqa: S101 - else nothing is passed over
    aside, state, rounds = receiver.dataset.aside(), receiver.state, list[Round]()
    try:
        for path in paths:
            fetched = named_file(
                polling.source.fetch, path, polling.known, receiver.now, receiver.site.project_dir
            )
            beside = replace(polling, receiver=replace(receiver, dataset=aside, state=state))
            with receiver.site.workspace.staging() as staging:
                added = _added(beside, fetched, staging, goes_on=path != paths[-1])
            state = added.state
            rounds += () if added.round is None else (added.round,)
        receiver.dataset.follow(aside, receiver.state)
    except BaseException:
        _forget(receiver, rounds)
        raise
    for each in rounds:
        done(each)


def _forget(receiver: Receiver, rounds: Iterable[Round]) -> None:
    """Take back what was kept of rounds that are not to be: what they had to tell is news again."""
    for each in rounds:
        if each.notes.bad_rows_file is not None:
            Path(each.notes.bad_rows_file).unlink(missing_ok=True)
    (receiver.site.workspace.cache / "drift" / receiver.dataset.id.multibase).unlink(
        missing_ok=True
    )


def _keep(fetched: Fetched, error: OdfBuildError, folder: Path) -> None:
    """Say where the cache has what the user may want to look at; the next success sweeps it."""
    kept = [fetched.path] if fetched.temporary else []
    if isinstance(error, PipeError) and error.said:
        folder.mkdir(parents=True, exist_ok=True)
        kept.append(folder / "stderr.txt")
        kept[-1].write_bytes(error.said)
    if kept:
        error.fix += f"; stored for inspection: {' and '.join(map(str, kept))}"


def _take_in(
    polling: _Polling, fetched: Fetched, done: Callable[[Round], None], *, together: bool
) -> Fetched:
    """Read what was fetched, and maybe files after it, and add them; return the last.

    Raises InternalError with the name of the file for what nobody foresaw, as of a library.
    """
    with polling.receiver.site.workspace.staging() as staging:
        try:
            return _take_in_file(polling, fetched, staging, done, together=together)
        except InvalidTimestampError as error:
            error.what = f"{fetched.name}: {error.what}"
            raise
        except (OdfBuildError, OSError, Enough, _FailedTogether):
            raise
        except Exception as error:
            raise InternalError(error, while_=f"{fetched.name} was read") from error


def _take_in_file(
    polling: _Polling,
    fetched: Fetched,
    staging: Path,
    done: Callable[[Round], None],
    *,
    together: bool,
) -> Fetched:
    receiver = polling.receiver
    if not together or _place(polling, fetched) is not None:
        _took(_added(polling, fetched, staging), done)
        return fetched
    first = _intake(polling, fetched, staging)
    following = _following(polling, fetched, first, staging)
    if not following:
        _took(add(receiver, first, staging), done)
        return fetched
    intakes = (first, *(intake for _, intake in following))
    rounds = add_together(receiver, intakes, staging)
    try:
        added = next(rounds)
    except Exception as error:
        if isinstance(error, EngineError) or not isinstance(error, OdfBuildError | OSError):
            raise _FailedTogether from error
        raise
    _took(added, done)
    for added in rounds:
        _took(added, done)
    return following[-1][0]


def _took(added: InputCommit, done: Callable[[Round], None]) -> None:
    if added.round is not None:
        done(added.round)


def _following(
    polling: _Polling, fetched: Fetched, first: Intake, staging: Path
) -> list[tuple[Fetched, Intake]]:
    """Fetch and read the files that may be taken in with the first one.

    One that cannot be read ends them: it has its turn in a round of its own, and fails there.
    """
    found: list[tuple[Fetched, Intake]] = []
    frames = [] if first.frame is None else [first.frame]
    last = fetched
    while frames and last.has_more and has_room(frames, 0):
        try:
            following = _fetch(polling, last.state)
            if isinstance(following, UpToDate):
                break
            if not has_room(frames, following.path.stat().st_size):
                break
            intake = _intake(polling, following, staging)
        except StoppedError:
            raise
        except Exception:  # read alone next, where the error is that of its file
            break
        if intake.frame is None or not may_follow(frames, intake.frame):
            break
        frames.append(intake.frame)
        found.append((following, intake))
        last = following
    return found


def _place(polling: _Polling, fetched: Fetched) -> "tuple[str, RemoteIngest] | None":
    """Return the engine elsewhere that reads and merges a file; None if that is done here."""
    if fetched.is_empty:
        return None
    return polling.placement.place(polling.source, polling.known, fetched.path)


def _added(
    polling: _Polling, fetched: Fetched, staging: Path, *, goes_on: bool = False
) -> InputCommit:
    """Read, merge and commit a file, here or elsewhere."""
    receiver, placed = polling.receiver, _place(polling, fetched)
    if placed is None:
        intake = replace(_intake(polling, fetched, staging), goes_on=goes_on)
        return add(receiver, intake, staging)
    from odfbuild.executors.ingest.elsewhere.placed import ingest_elsewhere

    source, (place, engine) = polling.source, placed
    noting, found = _noting(polling, fetched), list[Diagnostic]()
    path = _prepared(polling, fetched, staging, found)
    try:
        done = ingest_elsewhere(receiver, engine, path, fetched.name, staging)
    except EngineError as error:
        say_where(error, fetched.name)
        raise
    if not done.read_rows:
        size = path.stat().st_size
        found += _of_no_row(source, fetched.name, size, receiver.options.empty)
    intake = Intake(
        name=fetched.name,
        frame=None,
        event_time=fetched.event_time or receiver.now,
        state=fetched.state,
        notes=done.notes,
        found=tuple(found),
        noting=noting,
        goes_on=goes_on,
        place=place,
    )
    if done.merged is None:
        return add(receiver, intake, staging)
    return add_merged(receiver, intake, done.merged, staging)


def _noting(polling: _Polling, fetched: Fetched) -> "ReadingNote | None":
    globs = isinstance(polling.source.fetch, FetchStepFilesGlob)
    return polling.files.begin(fetched.path) if globs else None


def _prepared(polling: _Polling, fetched: Fetched, staging: Path, found: list[Diagnostic]) -> Path:
    """Return a file as it is read, decompressed and piped; `found` takes warnings of it."""
    site, name = polling.receiver.site, fetched.name
    around = Surroundings(site.project_dir, site.env, site.permissions, (site.workspace.root,))
    steps = polling.source.prepare or ()
    return prepare(steps, fetched.path, staging, name=name, around=around, found=found)


def _intake(polling: _Polling, fetched: Fetched, staging: Path) -> Intake:
    source, receiver = polling.source, polling.receiver
    noting = _noting(polling, fetched)
    if fetched.is_empty:
        return Intake(
            name=fetched.name,
            frame=None,
            event_time=receiver.now,
            state=fetched.state,
            noting=noting,
        )
    site = receiver.site
    name, found = fetched.name, list[Diagnostic]()
    path = _prepared(polling, fetched, staging, found)
    frame, notes = read_columns(
        source.read,
        path,
        staging=staging,
        name=fetched.name,
        options=receiver.options,
        in_force=schema_in_force(receiver.state),
        vocab=receiver.state.vocab,
        held=site.engine.held(source.merge, source.preprocess),
    )
    if frame is None or not frame.rows:
        found += _of_no_row(source, name, path.stat().st_size, receiver.options.empty)
    return Intake(
        name=fetched.name,
        frame=frame,
        event_time=fetched.event_time or receiver.now,
        state=fetched.state,
        notes=notes,
        found=tuple(found),
        noting=noting,
    )


class EmptyInputError(EngineError):
    """A polled file has 0 bytes or not one row, and the project refuses that."""

    code = EMPTY_INPUT


def _of_no_row(
    source: SetPollingSource, name: str, size: int, wanted: EmptyInputs
) -> Iterator[Diagnostic]:
    """Yield the warning of a file that is read as a table without rows, as in the reference.

    Raises EmptyInputError if such files are refused.
    """
    if wanted is EmptyInputs.ACCEPT:
        return
    is_whole, merge = traits_of(source.merge).is_whole, name_of(type(source.merge))
    lost = f", which retracts all rows of this {merge}" if is_whole else ""
    has = "it has not one byte" if size == 0 else "it has not one row"
    if wanted is EmptyInputs.REFUSE:
        raise EmptyInputError(
            f"{name} is empty: {has}",
            f"`empty: refuse` in the defaults of odfbuild.yaml refuses a table without rows{lost}",
            "write it again, and odfbuild apply; `empty: accept` takes it as it is",
        )
    yield Diagnostic(
        code=EMPTY_INPUT,
        what=f"{name} is empty: {has}, and is read as a table without rows{lost}",
        why="what was to write it may have failed",
        fix="write it again, and odfbuild apply; of rows that a Snapshot took back, odfbuild undo; "
        "if it is meant, `empty: accept` in the defaults of odfbuild.yaml",
        span=None,
        level=Level.WARNING,
    )


def _fetch(polling: _Polling, known: SourceState | None) -> Fetched | UpToDate:
    receiver = polling.receiver
    return fetch(
        polling.source.fetch,
        known,
        now=receiver.now,
        project_dir=receiver.site.project_dir,
        cache=polling.folder,
        env=receiver.site.env,
        permissions=receiver.site.permissions,
    )
