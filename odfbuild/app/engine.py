"""The resident engine of a workspace: start, stop and status."""

import os
import signal
import time
from collections.abc import Mapping
from enum import Enum

from odfbuild.errors import EngineFailedError, StateError
from odfbuild.executors.engine.registry import check_master
from odfbuild.executors.engine.spark.cluster.providers import provider_of
from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.jvm.resident import (
    OFF,
    ResidentFolder,
    ResidentRecord,
    ask,
    differences,
    host,
    is_gone,
    read_kept,
    residence,
    started_at,
    traits,
)
from odfbuild.executors.engine.spark.jvm.resident_start import resident_document, spawn_keeper
from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.project.opened import Opened
from odfbuild.values import dataclass

IDLE = 15 * 60.0  # seconds without a user until it ends
_PATIENCE = 180.0  # seconds until a keeper that says nothing is given up


class EngineState(Enum):
    """How a resident engine is."""

    NONE = "none"
    READY = "ready"
    UNFIT = "unfit"
    STARTING = "starting"
    STOPPING = "stopping"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """What is known of the resident engine; `why` says why commands do not use it.

    `users` are processes, `idle` and `idle_for` seconds, `since` is in Unix seconds.
    """

    state: EngineState
    why: tuple[str, ...] = ()
    kept: ResidentRecord | None = None
    users: tuple[int, ...] = ()
    served: int = 0
    idle_for: float = 0.0


def resident(project: Opened) -> Resident:
    """Look at the resident engine of a workspace, without changing anything."""
    place = ResidentFolder(project.workspace.cache)
    kept = read_kept(place)
    if kept is None:
        return Resident(state=_state_of_unknown(place), why=_reasons_to_doubt(place))
    if is_gone(place, kept):
        return Resident(state=EngineState.NONE, why=("the last one was killed",))
    if kept.host != host():
        why = f"it runs on another machine: {kept.host.split()[0]}"
        return Resident(state=EngineState.UNFIT, why=(why,), kept=kept)
    if provider_of(project.spark.master).is_remote:
        why = f"Spark runs in {project.spark.master}"
        return Resident(state=EngineState.UNFIT, why=(why,), kept=kept)
    return _resident_state(project, kept)


def _state_of_unknown(place: ResidentFolder) -> EngineState:
    """Return how one is that has written nothing, or has taken it away."""
    if place.is_starting():
        return EngineState.STARTING
    return EngineState.STOPPING if place.is_alive() else EngineState.NONE


def _wait_until_started(place: ResidentFolder) -> None:
    """Wait for one that a command is starting."""
    until = time.monotonic() + _PATIENCE
    while place.is_starting() and time.monotonic() < until:
        time.sleep(0.05)


def _reasons_to_doubt(place: ResidentFolder) -> tuple[str, ...]:
    if os.path.lexists(place.kept) and not place.is_ours():
        return (f"{place.kept} could have been written by another user",)
    return ()


def _resident_state(
    project: Opened, kept: ResidentRecord, question: Mapping[str, object] | None = None
) -> Resident:
    try:
        line, said = ask(kept, question or {"ask": "status"})
    except (OSError, ValueError) as error:
        why = f"it does not answer: {type(error).__name__}"
        return Resident(state=EngineState.SILENT, why=(why,), kept=kept)
    line.close()
    unlike = differences(kept.traits, _wanted_traits(project))
    off = ("it is switched off here",) if _is_off(project) else ()
    state = EngineState.UNFIT if unlike or off else EngineState.READY
    users = said.get("users")
    return Resident(
        state=EngineState.STOPPING if said.get("stopping") is True else state,
        why=(*off, *unlike),
        kept=kept,
        users=tuple(int(each) for each in users) if isinstance(users, list) else (),
        served=int(str(said.get("served", 0))),
        idle_for=float(str(said.get("idle_for", 0))),
    )


def _wanted_traits(project: Opened) -> dict[str, str]:
    spark = project.spark
    provider = provider_of(spark.master, spark.settings, spark.wait, spark.objects)
    return traits(find_java(), provider, spark.memory, _cores())


def _is_off(project: Opened) -> bool:
    return residence(project.spark.resident) == OFF


def _cores() -> int:
    return min(os.cpu_count() or 1, 8)


def start(project: Opened, idle: float = IDLE) -> tuple[Resident, bool]:
    """Start a resident engine unless a fitting one is there; tell whether it was started now.

    Raises StateError for one that is there and does not fit, EngineFailedError when none starts.
    """
    _check_startable(project)
    place = ResidentFolder(project.workspace.cache)
    with place.starting():
        _wait_until_started(place)
        found = resident(project)
        if found.state is EngineState.READY:
            return found, False
        if found.state in (EngineState.UNFIT, EngineState.SILENT) and not _is_off(project):
            raise StateError(
                what="there is a resident engine, but it cannot be used",
                why="; ".join(found.why),
                fix="odfbuild engine stop, then start it again; stop --now does not wait for users",
            )
        _clean(place)
        _launch(project, place, idle)
        return resident(project), True


def _clean(place: ResidentFolder) -> None:
    """Remove what an engine left that was killed; wait for one that is about to end."""
    until = time.monotonic() + _PATIENCE
    while place.is_alive():
        if time.monotonic() > until:
            raise EngineFailedError(
                what="the resident engine does not stop",
                why="it received the request to stop, but is still in use",
                fix="odfbuild engine stop --now",
            )
        time.sleep(0.05)
    place.kept.unlink(missing_ok=True)


def _check_startable(project: Opened) -> None:
    """Raise StateError where the target has a server, which its owner keeps running.

    Raises ProjectError for a word in the environment that is none.
    """
    residence(project.spark.resident)
    master = project.spark.master
    if provider_of(master).is_remote:
        raise StateError(
            what=f"there is nothing to start: Spark runs in {master}",
            why="a server of Spark Connect keeps running, and commands use it as it is",
            fix="choose a target that runs on this machine or on a cluster: --target NAME",
        )


def _launch(project: Opened, place: ResidentFolder, idle: float) -> None:
    check_master(project)
    spark = project.spark
    wanted = resident_document(
        master=spark.master,
        settings=spark.settings,
        wait=spark.wait,
        objects=spark.objects,
        memory=spark.memory,
        cores=_cores(),
        idle=idle,
    )
    keeper = spawn_keeper(place, wanted, is_local=provider_of(spark.master).is_local)
    until = time.monotonic() + _PATIENCE
    while not place.kept.exists():
        if keeper.poll() is not None or time.monotonic() > until:
            keeper.kill()
            keeper.wait()
            raise _not_started(place)
        time.sleep(0.02)
    keeper.returncode = 0  # it goes on without us: nobody waits for it


def _not_started(place: ResidentFolder) -> EngineFailedError:
    lines = read_regular(place.log).decode("utf-8", "replace").strip().splitlines()
    try:
        what, why, fix = parse_json(lines[-1])
    except (IndexError, ValueError, TypeError):
        said = f"it printed: {lines[-1]}" if lines else place.silence()
        return EngineFailedError("the resident engine did not start", said, f"see {place.log}")
    return EngineFailedError(what, why, fix)


def server_plugin() -> tuple[str, bytes]:
    """Return the class of the plugin for servers of Spark Connect, and the archive that has it."""
    from odfbuild.executors.engine.spark.cluster.connect.plugin import PLUGIN, plugin_archive

    return PLUGIN, plugin_archive()


def stop(project: Opened, *, now: bool = False) -> Resident:
    """Stop the resident engine once nobody uses it, or at once; return how it was before.

    Returns when it has gone.
    """
    place = ResidentFolder(project.workspace.cache)
    _wait_until_started(place)
    kept = read_kept(place)
    found = resident(project)
    if kept is None or kept.host != host() or not place.is_alive():
        if kept is not None and is_gone(place, kept):
            _clean(place)
        return found
    answer = _resident_state(project, kept, {"ask": "stop", "now": now})
    if answer.state is EngineState.SILENT:
        _kill(kept, now=now)
    while place.is_alive():
        time.sleep(0.05)
    place.kept.unlink(missing_ok=True)
    return found


def _kill(kept: ResidentRecord, *, now: bool) -> None:
    if not now:
        raise EngineFailedError(
            what="the resident engine does not answer",
            why="its keeper or its Java process hangs",
            fix="odfbuild engine stop --now kills it",
        )
    if started_at(kept.pid) == kept.started:
        os.kill(kept.pid, signal.SIGKILL)
