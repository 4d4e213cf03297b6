"""Diagnosis of a machine and a workspace: what is in order, and the remedy where it is not.

Nothing but a cache is written, and no engine is started unless that is asked for.
"""

import grp
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, time_ns

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddPushSource,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
    Transform,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.query_change import is_other_version, may_have_wrong_rows
from odfbuild.project.config.engines import DEFAULT_ENGINE
from odfbuild.project.opened import Opened
from odfbuild.state.gc import find_leftovers, tree_bytes
from odfbuild.state.workspace import MissingHeadError
from odfbuild.texts.visible import visible
from odfbuild.values import dataclass

_LITTLE, _TOO_LITTLE = 2 << 30, 200 << 20  # bytes that are free
_AHEAD = 120  # seconds by which another clock may be ahead
_RELEASED = Timestamp.parse("2024-01-01T00:00:00Z")  # before this, no clock can be right
_WHO = ("user", "host", "command", "run", "since")
_SHOWN = 3
_SERVER = "sc://"


class Health(Enum):
    """How something is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Checkup:
    """One thing that was looked at; `fix` is the way out where it is not well."""

    name: str
    health: Health
    what: str
    fix: str = ""


Look = Callable[[], Iterator[Checkup]]


def look_at_machine(*, runs_java: bool = True) -> Iterator[Checkup]:
    """Yield how Java, the engine, its class archive and the folders of the user are.

    Without `runs_java`, Java may be missing.
    """
    yield from _checkups_of("java", lambda: _java(is_used=runs_java))
    yield from _checkups_of("engine", _engine)
    yield from _checkups_of("archive", _archive)
    yield from _checkups_of("programs", _programs)
    yield from _checkups_of("temporary", lambda: _folder("temporary", Path(tempfile.gettempdir())))


def runs_java(project: Opened) -> bool:
    """Tell whether steps of a project may start Java on this machine."""
    from odfbuild.app.load_project import load

    if str(project.spark.master).startswith(_SERVER):
        return False
    try:
        declared = load(project, partly=True).declared
    except OdfBuildError:  # which `check` reports
        return True
    merges = project.engine.ingest == DEFAULT_ENGINE
    return any(
        _is_of_spark(event, merges=merges) for each in declared for event in each.snapshot.metadata
    )


def _is_of_spark(event: MetadataEvent, *, merges: bool) -> bool:
    query: Transform | None = None
    if isinstance(event, SetTransform):
        query = event.transform
    elif isinstance(event, SetPollingSource | AddPushSource):
        if merges:
            return True
        query = event.preprocess
    return query is not None and not is_opaque(query) and query.engine == DEFAULT_ENGINE


def look_at_clock() -> Iterator[Checkup]:
    """Yield how the clock is, where there are no blocks to compare it with."""
    yield from _checkups_of("clock", lambda: _clock(()))


def look_at_project(project: Opened) -> Iterator[Checkup]:
    """Yield how a workspace is: folders, datasets, locks, leftovers, keys, and who made it when."""
    root = project.workspace.root
    if isinstance(project.workspace.url, str):
        yield from _checkups_of("store", lambda: _store(project))
    yield from _checkups_of("workspace", lambda: _folder("workspace", root))
    yield from _checkups_of("workspace", lambda: _access(root))
    yield from _checkups_of("cache", lambda: _cache(root))
    try:
        states = project.workspace.states()
    except (OdfBuildError, OSError) as error:
        yield _failed_checkup("datasets", error)
        states = {}
    for name, wrong in project.workspace.damage().items():
        if not isinstance(wrong, MissingHeadError):  # which is told below
            yield Checkup("datasets", Health.BAD, f"{name}: {wrong.what}", wrong.fix)
    yield from _checkups_of("datasets", lambda: _datasets(project, states))
    yield from _checkups_of("lineage", lambda: _lineage(project))
    yield from _checkups_of("engine", lambda: _made_by(states, project.config.engines))
    yield from _checkups_of("resident", lambda: _resident(project))
    yield from _checkups_of("engines", lambda: _packages(project))
    yield from _checkups_of("cluster", lambda: _cluster(project))
    yield from _checkups_of("clock", lambda: _clock([each.system_time for each in states.values()]))
    yield from _checkups_of("locks", lambda: _locks(project))
    yield from _checkups_of("leftovers", lambda: _leftovers(project))
    yield from _checkups_of("keys", lambda: _keys(project))


def _store(project: Opened) -> Iterator[Checkup]:
    """Say whether the store of a workspace can be relied on, how clocks differ, who has leases."""
    from odfbuild.state.remote.store.abilities import probe
    from odfbuild.state.remote.store.layout import FORMAT_KEY, LARGEST_FORMAT, check_format
    from odfbuild.state.remote.workspace import BucketWorkspace

    workspace = project.workspace
    assert isinstance(workspace, BucketWorkspace)  # noqa: S101 - it has a URL
    able = probe(workspace.client)
    if not (able.creates_only and able.swaps):
        what = (
            f"{workspace.url} does not support conditional writes: of two simultaneous commits "
            "one is lost"
        )
        yield Checkup("store", Health.BAD, what, "use a store with conditional writes")
        return
    check_format(workspace.client.get(FORMAT_KEY, LARGEST_FORMAT), workspace.client.place)
    yield _ok("store", f"{workspace.url} supports conditional writes")
    ahead = time_ns() / 1e9 - workspace.now()
    if abs(ahead) > _AHEAD:
        what = f"the clock here is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that "
        fix = "set the one that is wrong; ages of objects and leases are by that of the store"
        yield Checkup("store", Health.WARN, f"{what}of the store", fix)
    for note in workspace.leases.notes():
        by = ", ".join(f"{name} {value}" for name, value in note.holder.items() if name in _WHO)
        name = visible(note.name)
        said = f"{name} is held: {visible(by)}; renewed {note.renewed}"
        if note.is_stale or note.is_of_later:
            then = "the next run takes it over" + (
                ", two minutes later" if note.is_of_later else ""
            )
            fix = f"{then}; to release it now: odfbuild unlock {name}"
            yield Checkup("leases", Health.WARN, said, fix)
        else:
            yield _ok("leases", said)


def _packages(project: Opened) -> Iterator[Checkup]:
    """Say which optional packages the configured engines need and lack."""
    needed = [
        (f"engine {each.name}: {each.address}", "grpc", "engine")
        for each in project.config.engines.values()
        if not each.command
    ]
    needed += [
        (f"engine {each.name}: {each.objects}", "obstore", "s3")
        for each in project.config.engines.values()
        if each.objects is not None
    ]
    if project.spark.objects is not None:
        needed.append((f"engine spark: {project.spark.objects}", "obstore", "s3"))
    missing = [each for each in needed if find_spec(each[1]) is None]
    for what, package, extra in missing:
        said = f"{what} needs the package {package}, which is not installed"
        yield Checkup("engines", Health.BAD, said, f"pip install 'odfbuild[{extra}]'")
    if needed and not missing:
        packages = dict.fromkeys(package for _, package, _ in needed)
        yield _ok("engines", f"what they need is installed: {', '.join(packages)}")


def _cluster(project: Opened) -> Iterator[Checkup]:
    """Say whether connections to a cluster ask for a secret.  Raises ClusterSecretError."""
    from odfbuild.executors.engine.spark.cluster.properties import (
        cluster_properties,
        cluster_secret,
        properties_file,
    )

    master = project.spark.master
    if master is None or master.startswith("local"):
        return
    cluster_properties()  # which refuses a file that cannot be used
    if master.startswith(_SERVER):
        yield from _server(master)
        return
    if not master.startswith("spark://"):
        yield Checkup("cluster", Health.OK, f"{master}: with a secret that Spark makes")
        return
    if cluster_secret() is not None:
        yield Checkup("cluster", Health.OK, f"{master}: with the secret of {properties_file()}")
        return
    yield Checkup(
        "cluster",
        Health.BAD,
        f"{master}: anyone who can reach the ports of its machines, or of this one, can run "
        "programs there",
        f"set a secret in {properties_file()}: see docs/clusters.md",
    )


def _server(master: str) -> Iterator[Checkup]:
    """Say whether a server of Spark Connect asks for a token, and what reads it on its way.

    Raises ClusterSecretError, EngineFailedError.
    """
    from odfbuild.executors.engine.spark.cluster.connect.channel import (
        ServerPlace,
        check_token,
        require_client,
    )
    from odfbuild.executors.engine.spark.cluster.properties import (
        connect_token,
        properties_file,
    )

    require_client()
    place, token = ServerPlace.of(master), connect_token()
    check_token(place, token)
    if token is not None:
        way = "behind TLS" if place.has_tls else "on this machine"
        yield Checkup("cluster", Health.OK, f"{master}: with a token, {way}")
        return
    yield Checkup(
        "cluster",
        Health.BAD,
        f"{master}: anyone who can reach its port can run programs there, unless what is before it "
        "asks for something else",
        f"give the server a token, and write it into {properties_file()}: see docs/clusters.md",
    )


def _lineage(project: Opened) -> Iterator[Checkup]:
    """Raise LineageStoreError if the file of lineage, which is no cache, is damaged."""
    from odfbuild.executors.runs.lineage import FILE, lineage_of

    if (project.workspace.root / FILE).exists():
        store = lineage_of(project.workspace)
        try:
            store.tables.check()
        finally:
            store.close()
    yield from ()


def try_engine(project: Opened) -> Iterator[Checkup]:
    """Start the engine, and say how long that took."""
    from odfbuild.app.inspection.question import Question, answered

    def start() -> Iterator[Checkup]:
        began = monotonic()
        with answered(project, Question("select 1 as one"), {}, 1) as frame:
            rows = 0 if frame.table is None else frame.table.num_rows
        took = monotonic() - began
        yield _ok("started", f"the engine answered a query with {rows} row in {took:.1f} s")

    yield from _checkups_of("started", start)


def _checkups_of(name: str, look: Look) -> Iterator[Checkup]:
    """Yield what a look finds; what it cannot look at is bad."""
    try:
        yield from look()
    except (OdfBuildError, OSError) as error:
        yield _failed_checkup(name, error)


def _failed_checkup(name: str, error: OdfBuildError | OSError) -> Checkup:
    if isinstance(error, OdfBuildError):
        return Checkup(name, Health.BAD, error.what, error.fix)
    place = "" if error.filename is None else f"{error.filename}: "
    return Checkup(name, Health.BAD, f"{place}{error.strerror or error}", "check its access rights")


def _ok(name: str, what: str) -> Checkup:
    return Checkup(name, Health.OK, what)


# the machine


def _java(*, is_used: bool) -> Iterator[Checkup]:
    from odfbuild.executors.engine.spark.jvm.java import JavaNotFoundError, find_java

    try:
        java = find_java()
    except JavaNotFoundError:
        if is_used:
            raise
        yield _ok("java", "not found; no step of this project needs it on this machine")
        return
    yield _ok("java", f"{java.version} ({java.vendor or 'unknown vendor'}) in {java.home}")


def _engine() -> Iterator[Checkup]:
    try:
        yield _ok("engine", f"spark {engine_version('spark')}")
    except PackageNotFoundError:
        fix = "reinstall odfbuild with its dependencies"
        yield Checkup("engine", Health.BAD, "the package pyspark is not installed", fix)


def _archive() -> Iterator[Checkup]:
    from odfbuild.executors.engine.spark.jvm.archive import archive_of
    from odfbuild.executors.engine.spark.jvm.java import JavaNotFoundError, find_java

    if os.environ.get("ODFBUILD_CLASS_ARCHIVE") == "off":
        yield _ok("archive", "not used (ODFBUILD_CLASS_ARCHIVE=off); starts take a second longer")
        return
    try:
        archive = archive_of(find_java())
    except (PackageNotFoundError, JavaNotFoundError):
        return  # which is told already
    if archive.is_there:
        size = archive.path.stat().st_size >> 20
        yield _ok("archive", f"{size} MB in {archive.path}")
    elif archive.has_failed:
        yield Checkup(
            "archive",
            Health.WARN,
            "creating it failed, so starts take a second longer",
            f"delete {archive.path.with_suffix('.failed')} to try again; "
            f"{archive.path.with_suffix('.log')} says why",
        )
    else:
        yield _ok("archive", "not created yet; the first use of the engine creates it")


def _programs() -> Iterator[Checkup]:
    """Say what bounds the programs of Pipe steps."""
    from odfbuild.executors.process.sandbox import confinement

    found = confinement()
    kept = ["files (landlock)"] if found.files else []
    if found.network:
        kept.append("network (a namespace of its own)")
    elif found.tcp:
        kept.append("TCP (landlock)")
    if found.is_complete:
        yield _ok("programs", f"those of Pipe steps are confined: {', '.join(kept)}")
        return
    yield Checkup(
        "programs",
        Health.WARN,
        "those of Pipe steps "
        + (f"are partly confined: {', '.join(kept)}" if kept else "have your access rights"),
        "Linux with landlock confines them; a policy with `confine: required` refuses them "
        "otherwise",
    )


def _folder(name: str, folder: Path) -> Iterator[Checkup]:
    """Yield whether a folder, or the one that it would be made in, can be written, and has room."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        fix = "move it, or name another folder"
        yield Checkup(name, Health.BAD, f"{there} is a file, but must be a folder", fix)
        return
    if not os.access(there, os.W_OK | os.X_OK):
        fix = f"chmod u+rwx {there}, or ask its owner"
        yield Checkup(name, Health.BAD, f"{there} cannot be written to", fix)
        return
    free = shutil.disk_usage(there).free
    said = f"{folder}, {free / 1e9:.1f} GB free" + ("" if folder.exists() else ", not there yet")
    if free >= _LITTLE:
        yield _ok(name, said)
    else:
        health = Health.BAD if free < _TOO_LITTLE else Health.WARN
        yield Checkup(
            name, health, said, "free some space; odfbuild gc --dry-run shows what it can delete"
        )


def _clock(times: Sequence[Timestamp]) -> Iterator[Checkup]:
    now = Timestamp.from_millis(time_ns() // 1_000_000)
    if now < _RELEASED:
        fix = "set the clock; blocks say when they were written"
        yield Checkup("clock", Health.BAD, f"it says {now}, which is in the past", fix)
        return
    newest = max(times, default=None)
    ahead = 0 if newest is None else (newest.nanos - now.nanos) // 10**9
    if ahead > _AHEAD:
        yield Checkup(
            "clock",
            Health.BAD,
            f"it says {now}, and the newest block is of {newest}",
            "set the clock of this machine, if the other one was right; until then new blocks get "
            "the later time",
        )
    elif newest is not None:
        yield _ok("clock", f"{now}, the newest block is of {newest}")
    else:
        yield _ok("clock", str(now))


# the workspace


def _access(root: Path) -> Iterator[Checkup]:
    """Yield what other users of the machine may do in the folder of the workspace."""
    if not root.is_dir():
        return
    found = root.stat()
    others = found.st_mode & (0o007 if _is_own_group(found) else 0o077)
    fix = f"chmod 700 {root}; where others are to "
    if others & 0o022:
        risk = "they could change rows, keys and recorded state"
        what = f"others can write to {root}: {risk}"
        yield Checkup("workspace", Health.BAD, what, f"{fix}share it, let them read alone")
    elif others:
        what = f"others can read {root}: rows, and plans"
        yield Checkup("workspace", Health.WARN, what, f"{fix}read it, leave it as it is")


def _is_own_group(found: os.stat_result) -> bool:
    """Tell whether the group of a file is that of its owner alone, as systems make for a user."""
    try:
        group, owner = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}


def _cache(root: Path) -> Iterator[Checkup]:
    cache = root / "cache"
    for each in _folder("cache", cache) if cache.exists() else ():
        what = f"{tree_bytes(cache) / 1e6:.1f} MB in {cache}"
        yield replace(each, what=what) if each.health is Health.OK else each


def _datasets(project: Opened, states: Mapping[DatasetAlias, ChainState]) -> Iterator[Checkup]:
    names, heads = project.workspace.names(), project.workspace.heads()
    broken = project.workspace.damage()
    headless = [
        str(alias)
        for alias, id in names.items()
        if id not in heads
        and isinstance(broken.get(alias, MissingHeadError(alias)), MissingHeadError)
    ]
    nameless = [str(id) for id in heads if id not in set(names.values())]
    if headless:
        yield Checkup(
            "datasets",
            Health.BAD,
            f"without a head: {_some(headless)}",
            "restore refs/head from a copy; odfbuild verify has details",
        )
    if nameless:
        yield Checkup(
            "datasets",
            Health.WARN,
            f"with a head but no name: {_some(nameless)}",
            "odfbuild import names one, by its folder",
        )
    if not headless and not nameless and not broken:
        yield _ok("datasets", f"{len(states):,}, each with a name and a head")


def _made_by(
    states: Mapping[DatasetAlias, ChainState], outside: Collection[str]
) -> Iterator[Checkup]:
    try:
        installed = engine_version(DEFAULT_ENGINE) or ""
    except PackageNotFoundError:
        return  # which is told already
    others: dict[str, list[str]] = {}
    wrong: dict[str, list[str]] = {}
    for alias, state in states.items():
        transform = None if state.transform is None else state.transform.transform
        if transform is None or is_opaque(transform):
            continue
        cause = may_have_wrong_rows(state, states, installed)
        if cause is not None:
            wrong.setdefault(cause.value, []).append(str(alias))
        elif transform.engine in outside:
            continue
        elif (own := engine_version(transform.engine)) is None or is_other_version(transform, own):
            made_by = " ".join(filter(None, (transform.engine, transform.version)))
            others.setdefault(made_by, []).append(str(alias))
    for what, names in wrong.items():
        yield Checkup(
            "rows",
            Health.WARN,
            f"may be wrong, as an earlier version {what}: {_some(names)}",
            "odfbuild verify NAME --recompute checks them; odfbuild rebuild NAME rebuilds them",
        )
    for version, names in others.items():
        yield Checkup(
            "engine",
            Health.WARN,
            f"made by {version}: {_some(names)}",
            "odfbuild engine upgrade reruns their steps, and records this version if the results "
            "are equal",
        )


def _resident(project: Opened) -> Iterator[Checkup]:
    """Say whether an engine was left running, and what it takes; nothing where none was."""
    from odfbuild.app.engine import EngineState, resident

    found = resident(project)
    if found.kept is None or found.state is EngineState.NONE:
        return
    used = f"{len(found.users):,} commands use it" if found.users else "no command uses it"
    what = f"Java process {found.kept.java_pid}, {_memory_of(found.kept.java_pid)}; {used}"
    if found.state in (EngineState.UNFIT, EngineState.SILENT):
        fix = "odfbuild engine stop ends it, with --now also one that does not answer"
        yield Checkup("resident", Health.WARN, f"{what}; not used: {'; '.join(found.why)}", fix)
    else:
        yield _ok("resident", what)


def _memory_of(pid: int) -> str:
    from odfbuild.executors.engine.spark.jvm.resident import memory_of

    taken = memory_of(pid)
    return "unknown memory" if taken is None else f"{taken / 1e6:,.0f} MB"


def _locks(project: Opened) -> Iterator[Checkup]:
    names = project.workspace.aliases()
    held = [f"{names.get(id, id)} by {holder}" for id, holder in project.workspace.locks().items()]
    yield _ok("locks", f"held: {_some(held)}" if held else "none is held")


def _leftovers(project: Opened) -> Iterator[Checkup]:
    ids = project.workspace.names().values()
    found = find_leftovers(project.workspace.root, ids, before=time_ns() / 1e9 - 3_600)
    if not found:
        yield _ok("leftovers", "none")
        return
    size = sum(each.bytes for each in found) / 1e6
    what = f"{len(found):,} of interrupted work, {size:.1f} MB"
    yield Checkup("leftovers", Health.WARN, what, "odfbuild gc deletes them")


def _keys(project: Opened) -> Iterator[Checkup]:
    kept = project.workspace.keys.kept()
    folder = project.workspace.root / "keys"
    is_open = folder.is_dir() and bool(folder.stat().st_mode & 0o077)
    unsafe = [str(each.path) for each in kept if not each.is_private]
    if is_open:
        what = f"other users can read {folder}"
        yield Checkup("keys", Health.WARN, what, f"chmod 700 {folder}")
    if unsafe:
        what = f"other users can read {_some(unsafe)}"
        yield Checkup(
            "keys", Health.BAD, what, f"chmod 600 {folder}/fed01*; until then they are refused"
        )
    if not is_open and not unsafe:
        yield _ok("keys", f"{len(kept):,}, which only you can read" if kept else "none here")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN:,} more"
