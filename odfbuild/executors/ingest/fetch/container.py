"""Fetching by a container that prints the data (ODF 0.34.1, "FetchStep::Container").

The container gets the state of its source in variables, and writes the new state to files:

    ODF_ETAG, ODF_LAST_MODIFIED     the state, of which at most one is not empty
    ODF_BATCH_SIZE                  how many records a round should have, 10000 if not set
    ODF_NEW_ETAG_PATH               files for it to write, in a folder that is mounted for it:
    ODF_NEW_LAST_MODIFIED_PATH      the new state, of which the first counts
    ODF_NEW_HAS_MORE_DATA_PATH      a file whose existence means that there is more

No output and no other state mean that nothing is new; no output and another state change the state
alone.  The values of variables are passed in the environment of the runtime, not on its command
line.
"""

import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from odfbuild.executors.ingest.fetch.local import ETAG, LAST_MODIFIED, SOURCE_NAME
from odfbuild.executors.ingest.fetch.request import Request, redact
from odfbuild.executors.ingest.fetch.substitute import substitute, variables
from odfbuild.executors.process.containers import (
    ContainerError,
    Image,
    Runtime,
    find_runtime,
)
from odfbuild.executors.process.limits import mebibytes, seconds
from odfbuild.executors.process.program import last_words, printed, signal_name, waited
from odfbuild.host.files import read_regular
from odfbuild.odf.events import FetchStepContainer, SourceState
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.state.files.checksum import checked_object, object_with_check_sum
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_SIGNALS: Final = 128
_FIXES: Final = {
    125: "see the output of the runtime above; it may refuse an option of `fetch`",
    126: "the entry point cannot be executed: correct `command`, or the image",
    127: "there is no such program in the image: correct `command`, or the image",
    137: "it was killed; if memory ran out, give it more",
}


def bad_batch_size(name: str, value: str) -> ContainerError:
    """Return the error of a batch size that is not a number."""
    return ContainerError(
        what=f"invalid format of the parameter {name}: {value!r}",
        why="it is how many records a round should have, an integer from 0",
        fix=f"correct `{name}` in `fetch.env`, or leave it out for the default, 10000",
    )


def bad_definition(what: str) -> ContainerError:
    """Return the error of an image or a variable that a runtime would take for something else."""
    return ContainerError(
        what=what,
        why="a runtime reads `-x` as an option, and `*` as every variable that there is",
        fix="correct `fetch`; a chain from elsewhere may contain what a definition must not",
    )


def unknown_variable(name: str) -> ContainerError:
    """Return the error of a variable that is not set."""
    return ContainerError(
        what=f"no value for the variable {name} of the container",
        why="in `fetch.env` it has no value, so it is taken from the environment of the command",
        fix=f"set {name} in the environment, or give it a `value`",
    )


def too_late(name: str, limit: float, variable: str, said: bytes) -> ContainerError:
    """Return the error of a container that took too long."""
    return ContainerError(
        what=f"{name} took more than {limit:g} seconds",
        why=last_words(said),
        fix=f"correct the image, or give it more time: {variable} is the limit in seconds",
        said=said,
    )


def too_much(name: str, most: int, variable: str, said: bytes) -> ContainerError:
    """Return the error of a container that printed too much."""
    return ContainerError(
        what=f"{name} prints more than {most >> 20} MiB",
        why="a round should have about as many records as ODF_BATCH_SIZE says",
        fix=f"let it stop before and report that there is more; {variable} is the limit in MiB",
        said=said,
    )


def failed(name: str, code: int, said: bytes) -> ContainerError:
    """Return the error of a container that ended with another exit code than 0."""
    killed = -code if code < 0 else code - _SIGNALS
    how = f"by the signal {signal_name(killed)}" if 0 < killed < 65 else f"with exit code {code}"
    return ContainerError(
        what=f"{name} ended {how}",
        why=last_words(said),
        fix=_FIXES.get(code, "correct `fetch`, or what the image does"),
        said=said,
    )


def bad_state(name: str, file: str, why: str) -> ContainerError:
    """Return the error of a state that cannot be stored."""
    return ContainerError(
        what=f"{name} wrote a state that cannot be stored to {file}",
        why=why,
        fix="correct what the image writes there",
    )


def same_state(name: str, kind: str) -> ContainerError:
    """Return the error of a container that prints data but writes no new state."""
    return ContainerError(
        what=f"{name} prints data, but writes the state that it was given",
        why=f"the same {kind.rpartition('/')[2]} means that nothing is new",
        fix="let it print nothing when nothing is new, and write another state when something is",
    )


def no_progress(name: str, *, printed: bool) -> ContainerError:
    """Return the error of a container that reports more data, but makes no progress."""
    return ContainerError(
        what=f"{name} reports more data, but makes no progress",
        why=f"its state is the same, and it prints {'the same again' if printed else 'nothing'}",
        fix="let it write a new state in every round, or not report more data",
    )


_TIMEOUT: Final = "ODFBUILD_CONTAINER_TIMEOUT"
_SIZE: Final = "ODFBUILD_CONTAINER_LIMIT"
_NETWORK: Final = "ODFBUILD_CONTAINER_NETWORK"
_BATCH: Final = "ODF_BATCH_SIZE"
_INSIDE: Final = "/opt/odf/out"
_ETAG_FILE: Final = "new-etag"
_CHANGED_FILE: Final = "new-last-modified"
_MORE_FILE: Final = "new-has-more-data"
_NOTE: Final = "container.json"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LONGEST_STATE: Final = 64 << 10
_OF_CLIENT: Final = re.compile(
    r"PATH|HOME|USER|SHELL|PWD|TMPDIR|LANG|LC_.*|LD_.*|GO[A-Z].*|XDG_.*|SSL_.*|SSH_.*|DBUS_.*"
    r"|(?i:.*_PROXY)|(?i:DOCKER|CONTAINER|PODMAN|BUILDAH|BUILDKIT|STORAGE|REGISTRY|REGISTRIES).*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOutput:
    """The output of a container in `path`, which is empty if only the state changed."""

    path: Path
    state: SourceState | None
    has_more: bool
    name: str
    is_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """A container to run: its texts with templates filled, and the secrets in them."""

    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    secrets: Request


def run_container(
    step: FetchStepContainer,
    state: SourceState | None,
    *,
    project_dir: Path,
    cache: Path,
    env: Mapping[str, str],
) -> ContainerOutput | None:
    """Return the output of a container since `state`, None if there is nothing new.

    Raises ContainerError, TemplateError or BadLimitError.  The standard error of a failed container
    is stored in `cache`.
    """
    spec = _spec(step, state, env)
    limit = seconds(env, _TIMEOUT, 3600.0, "the time that a container may take")
    most = mebibytes(env, _SIZE, 256 << 10, "what a container may print")
    runtime = find_runtime(project_dir, env, "sources of kind Container", "`fetch.image`")
    image = runtime.image(spec.image, limit)
    cache.mkdir(parents=True, exist_ok=True)
    name = f"{step.image} ({image.digest[:19]})"
    round = _Round(runtime, spec, image, cache, name)
    try:
        with _folder(cache) as out:
            digest, size = round.run(out, limit, most)
            return _output(round, state, out, (digest, size))
    except ContainerError as error:
        _store_output(error, cache, spec.secrets)
        raise


@dataclass(frozen=True, slots=True)
class _Round:
    """One run of an image; `name` is its name in messages."""

    runtime: Runtime
    spec: _Spec
    image: Image
    cache: Path
    name: str

    @property
    def path(self) -> Path:
        return self.cache / "fetched-container"

    def run(self, out: Path, limit: float, most: int) -> tuple[str, int]:
        """Store what the container prints; return its digest and its size in bytes."""
        digest, size, said = sha256(), 0, bytearray()
        until = time.monotonic() + limit
        try:
            with _environment(self.spec.env, self.runtime.env) as (shown, carried):
                options = [*_options(self.spec, out), *shown, self.image.id, *_arguments(self.spec)]
                with (
                    self.runtime.running(options, carried) as container,
                    self.path.open("wb") as file,
                ):
                    for block in printed(container.process, said, until):
                        size += len(block)
                        if size > most:
                            raise too_much(self.name, most, _SIZE, bytes(said))
                        digest.update(block)
                        file.write(block)
                    code = waited(container.process, until)
        except TimeoutError:
            raise too_late(self.name, limit, _TIMEOUT, bytes(said)) from None
        except (OSError, ValueError) as error:
            raise ContainerError(
                what=f"{self.name} cannot be run",
                why=str(error),
                fix="check the disk of the workspace, and `fetch`",
            ) from None
        if code != 0:
            raise failed(self.name, code, bytes(said))
        return digest.hexdigest(), size


def _spec(step: FetchStepContainer, state: SourceState | None, env: Mapping[str, str]) -> _Spec:
    for each in step.env or ():
        if _VARIABLE.fullmatch(each.name) is None:
            raise bad_definition(f"{excerpt(each.name, 80)!r} is not a name of a variable")
    image = substitute(step.image, env).strip()
    if not image or image.startswith("-"):
        raise bad_definition(f"{excerpt(step.image, 80)!r} is not an image")
    given = {each.name: _value(each.name, each.value, env) for each in step.env or ()}
    given.setdefault(_BATCH, "10000")
    if not (given[_BATCH].isascii() and given[_BATCH].isdecimal()):
        raise bad_batch_size(_BATCH, given[_BATCH])
    texts = [each.value for each in step.env or () if each.value is not None]
    names = {name for text in (*texts, *(step.args or ()), step.image) for name in variables(text)}
    names |= {each.name for each in step.env or () if each.value is None}
    return _Spec(
        image=image,
        command=step.command or (),
        args=tuple(substitute(each, env) for each in step.args or ()),
        env={**given, **_protocol(state)},
        secrets=Request(url="", name="", secrets=tuple(env[each] for each in names if each in env)),
    )


def _value(name: str, value: str | None, env: Mapping[str, str]) -> str:
    """Return the value of a variable; one without a value is taken from the environment."""
    if value is not None:
        return substitute(value, env)
    if name not in env:
        raise unknown_variable(name)
    return env[name]


def _protocol(state: SourceState | None) -> Mapping[str, str]:
    def known(kind: str) -> str:
        return state.value if state is not None and state.kind == kind else ""

    return {
        "ODF_ETAG": known(ETAG),
        "ODF_LAST_MODIFIED": known(LAST_MODIFIED),
        "ODF_NEW_ETAG_PATH": f"{_INSIDE}/{_ETAG_FILE}",
        "ODF_NEW_LAST_MODIFIED_PATH": f"{_INSIDE}/{_CHANGED_FILE}",
        "ODF_NEW_HAS_MORE_DATA_PATH": f"{_INSIDE}/{_MORE_FILE}",
    }


@contextmanager
def _folder(cache: Path) -> Iterator[Path]:
    """Create a folder that any user of the container can write to, and nobody else can reach."""
    parent = None if ":" in str(cache.resolve()) else cache.resolve()
    with tempfile.TemporaryDirectory(
        dir=parent, prefix=".container-", ignore_cleanup_errors=True
    ) as own:
        out = Path(own) / "out"
        out.mkdir()
        out.chmod(0o777)
        yield out


def _options(spec: _Spec, out: Path) -> Sequence[str]:
    options = [f"--volume={out}:{_INSIDE}:z", "--security-opt=no-new-privileges"]
    if spec.command:
        options.append(f"--entrypoint={spec.command[0]}")
    return options


def _arguments(spec: _Spec) -> Sequence[str]:
    """Return the arguments after the image: docker takes one word only as the entry point."""
    return [*spec.command[1:], *spec.args]


@contextmanager
def _environment(
    given: Mapping[str, str], client: Mapping[str, str]
) -> Iterator[tuple[Sequence[str], Mapping[str, str]]]:
    """Yield the options for variables, and the variables to add to the runtime's environment.

    Variables that would affect the runtime itself, such as PATH, are passed in a file that only its
    owner may read.
    """
    own = {name for name in given if _OF_CLIENT.fullmatch(name)}
    carried = {name: value for name, value in given.items() if name not in own}
    options = [f"--env={name}" for name in sorted(carried)]
    network = client.get(_NETWORK)
    if network:
        options.append(f"--network={network}")
    if not own:
        yield options, carried
        return
    broken = next(
        (name for name in sorted(own) if "\n" in given[name] or "\r" in given[name]), None
    )
    if broken is not None:
        raise ContainerError(
            what=f"the value of the variable {broken} has more than one line",
            why="variables that affect the runtime itself are passed in a file, one per line",
            fix="give the variable another name, and set it in the container",
        )
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{name}={given[name]}\n" for name in sorted(own))
        file.flush()
        yield [*options, f"--env-file={file.name}"], carried


def _output(
    round: _Round, before: SourceState | None, out: Path, found: tuple[str, int]
) -> ContainerOutput | None:
    """Return the output of a round, None if nothing is new; raise for contradictions."""
    digest, size = found
    now = _new_state(out, round.name)
    more = os.path.lexists(out / _MORE_FILE)
    moved = now is not None and (before is None or (now.kind, now.value) != _state_parts(before))
    if size and now is not None and not moved:
        raise same_state(round.name, now.kind)
    if more and not moved and (not size or _repeats(round.cache, digest)):
        raise no_progress(round.name, printed=size > 0)
    _note(round, digest, more=more)
    if not size and not moved:
        return None
    return ContainerOutput(
        path=round.path, state=now, has_more=more, name=round.name, is_empty=not size
    )


def _state_parts(state: SourceState) -> tuple[str, str]:
    return state.kind, state.value.rstrip("\r\n")


def _new_state(out: Path, name: str) -> SourceState | None:
    etag = _written(out / _ETAG_FILE, name)
    if etag:
        return SourceState(SOURCE_NAME, ETAG, etag)
    changed = _written(out / _CHANGED_FILE, name)
    if not changed:
        return None
    try:
        return SourceState(SOURCE_NAME, LAST_MODIFIED, str(Timestamp.parse(changed)))
    except InvalidTimestampError as error:
        raise bad_state(
            name, _CHANGED_FILE, f"{excerpt(changed, 80)!r} is no RFC 3339 time: {error}"
        ) from None


def _written(path: Path, name: str) -> str | None:
    """Return the text that a container wrote to a file, without line ends; None without a file.

    The entry may be anything: a link out of the folder, a pipe without a writer.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise bad_state(name, path.name, error.strerror or str(error)) from None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise bad_state(name, path.name, "it is not a regular file")
        data = os.read(opened, _LONGEST_STATE + 1)
    finally:
        os.close(opened)
    if len(data) > _LONGEST_STATE:
        raise bad_state(name, path.name, f"it is longer than {_LONGEST_STATE >> 10} KiB")
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise bad_state(name, path.name, "it is not UTF-8") from None


def _repeats(cache: Path, digest: str) -> bool:
    """Return whether the previous round reported more data, and printed the same."""
    with suppress(OSError):
        note = checked_object(read_regular(cache / _NOTE), cache.name) or {}
        return note.get("more") is True and note.get("output") == digest
    return False


def _note(round: _Round, digest: str, *, more: bool) -> None:
    """Store which image ran, which a chain does not record."""
    note = {
        "image": round.spec.image,
        "digest": round.image.digest,
        "id": round.image.id,
        "output": digest,
        "more": more,
    }
    with suppress(OSError):
        data = object_with_check_sum(note, round.cache.name, indent=1)
        parent = round.cache / f"{_NOTE}.pending"
        parent.write_bytes(data)
        parent.replace(round.cache / _NOTE)


def _store_output(error: ContainerError, cache: Path, secret: Request) -> None:
    """Remove secrets from an error, and store the standard error of its container."""
    said = redact(error.said.decode("utf-8", "replace"), secret)
    if error.why == last_words(error.said):  # it was shortened before secrets were removed
        error.why = last_words(said.encode())
    error.what, error.why = redact(error.what, secret), redact(error.why, secret)
    if said:
        path = cache / "stderr.txt"
        with suppress(OSError):
            path.write_text(said, "utf-8")
            error.fix += f"; its output is in {path}"
