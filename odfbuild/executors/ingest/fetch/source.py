"""Fetch of one round of a source: what is new since the stored state, or nothing.

FilesGlob gives one file per round and reads it in place; a `file:` url is read in place when its
modification time differs; http, https, ftp and ftps are downloaded into the cache, where the output
of a container is stored, too.
An `ETag` takes precedence over `Last-Modified` as state (as in the reference); the event time comes
from `Last-Modified` in both cases, while the reference loses it, and is sent with the `ETag` as
long as the cache has it.  Other kinds and schemes are refused by name.
"""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias, cast
from urllib.parse import quote, quote_plus

from odfbuild import __version__
from odfbuild.executors.ingest.fetch.download import Version, store_version, stored_version
from odfbuild.executors.ingest.fetch.local import (
    ETAG,
    LAST_MODIFIED,
    Reach,
    UnsupportedSourceError,
    check_name,
    declared_path,
    file_of,
    from_name,
    is_unchanged,
    mtime_millis,
    news,
)
from odfbuild.executors.ingest.fetch.request import (
    MissingSourceFileError,
    NotFoundError,
    NotModified,
    Request,
    SourceAnswer,
    printable,
)
from odfbuild.executors.ingest.fetch.substitute import (
    substitute,
    substitute_url,
    used_by,
    variables,
)
from odfbuild.executors.process.limits import seconds
from odfbuild.host.permissions import UNLIMITED, Permissions
from odfbuild.odf.events import (
    EventTimeSource,
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStep,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    SourceState,
)
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.planner.select.url_schemes import URL_SCHEMES
from odfbuild.values import dataclass

_SOURCE: Final = "default"
_TIMEOUT: Final = "ODFBUILD_HTTP_TIMEOUT"
_KINDS_LATER: Final = {
    "FetchStepMqtt": "Mqtt",
    "FetchStepEthereumLogs": "EthereumLogs",
}
_Download: TypeAlias = Callable[[Request, Path], SourceAnswer | NotModified]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of a round; `event_time` None means the round's system time.

    With `temporary`, `path` is a download in the cache; else it is the user's own file.  With
    `is_empty` there are no rows, only another state: an empty file could mean a table without rows.
    """

    path: Path
    state: SourceState | None
    event_time: Timestamp | None
    has_more: bool
    name: str
    temporary: bool = False
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class UpToDate:
    """The source has nothing new."""


def fetch(
    step: FetchStep,
    state: SourceState | None,
    *,
    now: Timestamp,
    project_dir: Path,
    cache: Path,
    env: Mapping[str, str],
    permissions: Permissions = UNLIMITED,
) -> Fetched | UpToDate:
    """Return what is new since `state`; a state of an unknown kind counts as none.

    `cache` is a folder for the downloads of this source alone; `permissions` say which paths may be
    read, which variables used and which images run.  Raises NotPermittedError, NotFoundError,
    UnreachableError, UnsupportedSourceError, TemplateError, BadLimitError, ContainerError,
    StoppedError or FetchError.
    """

    def reach(path: str) -> None:
        permissions.check_path(path, project_dir)

    match step:
        case FetchStepFilesGlob():
            return _glob(step, state, now, project_dir, reach)
        case FetchStepUrl():
            permissions.check_source_env(used_by(step), printable(step.url.strip()))
            return _url(
                step, state, now=now, project_dir=project_dir, cache=cache, env=env, reach=reach
            )
        case FetchStepContainer():
            permissions.check_container(step.image)
            permissions.check_source_env(used_by(step), f"the container {step.image}")
            return _container(step, state, project_dir=project_dir, cache=cache, env=env)
        case _:
            kind = _KINDS_LATER[type(step).__name__]
            raise UnsupportedSourceError(
                what=f"sources of kind {kind} cannot be fetched",
                why="this version fetches files, http, https, ftp, ftps and what containers print",
                fix="let another program write the data to files, and use `kind: FilesGlob`",
            )


def _glob(
    step: FetchStepFilesGlob,
    state: SourceState | None,
    now: Timestamp,
    project_dir: Path,
    reach: Reach,
) -> Fetched | UpToDate:
    found = news(step, state, project_dir, reach=reach)
    if found is None and (project_dir / step.path).is_dir():
        raise MissingSourceFileError(
            what=f"{step.path} is a folder",
            why="a path of FilesGlob names files",
            fix=f"name the files in it, such as {step.path.rstrip('/')}/*.csv",
        )
    if found is None:
        raise MissingSourceFileError(
            what=f"no file matches {step.path}",
            why="the source was never read, so an empty match is probably a mistake",
            fix="correct `fetch.path` (relative to the project folder), or put the files there",
        )
    if not found:
        return UpToDate()
    path = Path(found[0])
    check_name(path.name)
    state = SourceState(source_name=_SOURCE, kind=ETAG, value=path.name)
    return named_file(step, path, state, now, project_dir, has_more=len(found) > 1)


def named_file(
    step: FetchStepFilesGlob,
    path: Path,
    state: SourceState,
    now: Timestamp,
    project_dir: Path,
    *,
    has_more: bool = True,
) -> Fetched:
    """Return a file of a FilesGlob, and the state after it.  Raises NotFoundError."""
    _readable(path)
    return Fetched(
        path=path,
        state=state,
        event_time=_of_file(step.event_time, path.name, now),
        has_more=has_more,
        name=_shown(path, project_dir),
    )


def _of_file(source: EventTimeSource | None, name: str, now: Timestamp) -> Timestamp | None:
    match source:
        case EventTimeSourceFromPath(pattern=pattern, timestamp_format=form):
            return from_name(name, pattern, form)
        case EventTimeSourceFromMetadata():
            raise _incompatible("FromMetadata", "FilesGlob", "FromPath or FromSystemTime")
        case EventTimeSourceFromSystemTime():
            return now
        case None:
            return None


def _url(
    step: FetchStepUrl,
    state: SourceState | None,
    *,
    now: Timestamp,
    project_dir: Path,
    cache: Path,
    env: Mapping[str, str],
    reach: Reach,
) -> Fetched | UpToDate:
    url = substitute_url(step.url.strip(), env)
    scheme = URL_SCHEMES.get(url.partition(":")[0].lower())
    if scheme is None:
        raise UnsupportedSourceError(
            what=f"{printable(step.url)} cannot be fetched",
            why=f"this version knows the schemes {', '.join(URL_SCHEMES)}",
            fix="publish the data over https, or fetch it to a file first",
        )
    if scheme.module is None:
        path = file_of(url, project_dir)
        reach(str(path))
        return _file(step, path, state, now, project_dir)
    request = _request(step, url, state, stored_version(cache, url), env)
    return _remote(step, request, _download_of(scheme.module), now=now, cache=cache)


def _container(
    step: FetchStepContainer,
    state: SourceState | None,
    *,
    project_dir: Path,
    cache: Path,
    env: Mapping[str, str],
) -> Fetched | UpToDate:
    from odfbuild.executors.ingest.fetch.container import run_container

    output = run_container(step, state, project_dir=project_dir, cache=cache, env=env)
    if output is None:
        return UpToDate()
    return Fetched(
        path=output.path,
        state=output.state,
        event_time=None,
        has_more=output.has_more,
        name=output.name,
        temporary=True,
        is_empty=output.is_empty,
    )


def _download_of(module: str) -> _Download:
    found = import_module(f"odfbuild.executors.ingest.fetch.{module}")
    return cast(_Download, found.download)


def _file(
    step: FetchStepUrl, path: Path, state: SourceState | None, now: Timestamp, project_dir: Path
) -> Fetched | UpToDate:
    millis = mtime_millis(path)
    if is_unchanged(state, millis):
        return UpToDate()
    _readable(path)
    changed = Timestamp.from_millis(millis)
    return Fetched(
        path=path,
        state=SourceState(source_name=_SOURCE, kind=LAST_MODIFIED, value=str(changed)),
        event_time=_of_url(step, changed, now),
        has_more=False,
        name=_shown(path, project_dir),
    )


def _of_url(step: FetchStepUrl, changed: Timestamp | None, now: Timestamp) -> Timestamp | None:
    """Return the event time of a url; a pattern is searched in its path as it is declared."""
    match step.event_time:
        case EventTimeSourceFromPath(pattern=pattern, timestamp_format=form):
            return from_name(declared_path(step.url), pattern, form)
        case EventTimeSourceFromSystemTime():
            return now
        case EventTimeSourceFromMetadata() | None:
            return changed


def _remote(
    step: FetchStepUrl, request: Request, download: _Download, *, now: Timestamp, cache: Path
) -> Fetched | UpToDate:
    answer = download(request, cache)
    if isinstance(answer, NotModified):
        return UpToDate()
    changed = _http_date(answer.last_modified)
    store_version(cache, request.url, Version(answer.etag, answer.last_modified))
    return Fetched(
        path=answer.path,
        state=_remote_state(answer.etag, changed),
        event_time=_of_url(step, changed, now),
        has_more=False,
        name=request.name,
        temporary=True,
    )


def _request(
    step: FetchStepUrl,
    url: str,
    state: SourceState | None,
    kept: Version,
    env: Mapping[str, str],
) -> Request:
    """Return a request for a version other than that of the state, by all that is known of it."""
    etag = state.value if state is not None and state.kind == ETAG else None
    since = _since(state.value) if state is not None and state.kind == LAST_MODIFIED else None
    if etag is not None and etag == kept.etag:
        since = kept.last_modified
    return Request(
        url=url,
        name=printable(step.url.strip()),
        headers=tuple((h.name, substitute(h.value, env)) for h in step.headers or ()),
        secrets=_secrets(step, env),
        etag=etag,
        modified_since=since,
        timeout=seconds(env, _TIMEOUT, 30.0, "the time to connect"),
        agent=f"odfbuild/{__version__}",
    )


def _secrets(step: FetchStepUrl, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values that the templates of the source use, plain and as a URL spells them."""
    texts = (step.url, *(header.value for header in step.headers or ()))
    names = (name for text in texts for name in variables(text))
    values = [env[name] for name in names if name in env]
    return tuple({form for v in values for form in (v, quote(v), quote(v, ""), quote_plus(v))})


def _since(value: str) -> str | None:
    from email.utils import format_datetime

    try:
        return format_datetime(Timestamp.parse(value).to_datetime(), usegmt=True)
    except InvalidTimestampError:
        return None


def _http_date(text: str | None) -> Timestamp | None:
    """Return the instant of a Last-Modified header; one that cannot be read counts as absent."""
    from email.utils import parsedate_to_datetime

    try:
        return None if text is None else Timestamp.from_datetime(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None


def _remote_state(etag: str | None, changed: Timestamp | None) -> SourceState | None:
    if etag is not None:
        return SourceState(source_name=_SOURCE, kind=ETAG, value=etag)
    if changed is not None:
        return SourceState(source_name=_SOURCE, kind=LAST_MODIFIED, value=str(changed))
    return None


def _incompatible(source: str, kind: str, instead: str) -> UnsupportedSourceError:
    return UnsupportedSourceError(
        what=f"`eventTime: {{kind: {source}}}` cannot be used with `fetch: {{kind: {kind}}}`",
        why="such a source has nothing to take the time from",
        fix=f"use {instead}, or leave `eventTime` out",
    )


def _readable(path: Path) -> None:
    """Refuse a file that vanished after it was listed, or that may not be read."""
    if os.access(path, os.R_OK):
        return
    gone = not path.exists()
    raise NotFoundError(
        what=f"the file {path} vanished" if gone else f"the file {path} may not be read",
        why="it was there when the folder was listed" if gone else "permission denied",
        fix="run the command again" if gone else "allow reading the file",
    )


def _shown(path: Path, project_dir: Path) -> str:
    """Return the path for messages: relative to the project if it is inside."""
    return str(path.relative_to(project_dir)) if path.is_relative_to(project_dir) else str(path)
