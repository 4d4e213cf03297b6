"""Engines elsewhere: the `engines` setting, by the names that queries have for them."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Final

from odfbuild.errors import SourceSpan
from odfbuild.odf.events import Transform, TransformSql
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.project.config.engines import ENGINES, MERGERS
from odfbuild.project.config.quantities import parse_lag, parse_size
from odfbuild.project.config.repositories import is_store, problem_of_store
from odfbuild.project.config.settings import Section, SettingsReader
from odfbuild.project.yaml import Value
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

REQUEST_PLACE: Final = "{request}"
"""What the place of a request is put for in a command."""
_KINDS: Final = ("address", "command", "image")
_KEYS: Final = (*_KINDS, "port", "memory", "objects", "engine", "steps", "mounted", "limit")
_NAME: Final = late_pattern(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*", re.ASCII)
_ADDRESS: Final = late_pattern(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\]):([1-9][0-9]{0,4})",
    re.ASCII,
)
_IMAGE: Final = late_pattern(
    r"(?!(?:dir|docker|docker-archive|docker-daemon|containers-storage|oci|oci-archive|ostree|sif"
    r"|tarball):)(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/)?[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64}",
    re.ASCII,
)
"""A repository, perhaps with its server and a tag; a prefix of these would be read as a file."""
_LIMIT: Final = 3600.0
_PORT: Final = 2884
_MOST_PORT: Final = 65_535
_LEAST_MEMORY: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRule:
    """Which steps of our own engines an engine that takes jobs carries out, in which targets.

    Those of datasets with one of the `tags`, and those that may read `least` bytes or more (None
    for none).  Without `targets` it is so in every target.
    """

    tags: tuple[str, ...] = ()
    least: int | None = None
    targets: tuple[str, ...] = ()

    def counts_in(self, target: str) -> bool:
        """Tell whether the rule counts in a target."""
        return not self.targets or target in self.targets


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideEngine:
    """An engine that is reached over gRPC (ODF 0.34.1, "Engine Contract"), or takes jobs.

    `address` is its machine and port; of one that takes jobs `command:` and the program that is
    run for each, with the words of `command`; of one in a container `image:` and its `image`, which
    listens at `port` and has `memory` bytes, None for no limit.  `objects` is the prefix of an
    object store where jobs are written, None for the folder of the workspace.  `engine` is what it
    calls itself, in requests; `steps` which steps of that engine it carries out beside those of
    queries that name it, None for none; `mounted` where it sees the folder of the workspace, None
    for the same path; `limit` how many seconds it may take for an answer; `span` where its address
    is written.
    """

    name: str
    address: str
    engine: str
    steps: StepRule | None = None
    command: tuple[str, ...] = ()
    image: str | None = None
    port: int = _PORT
    memory: int | None = None
    objects: str | None = None
    mounted: str | None = None
    limit: float = _LIMIT
    span: SourceSpan | None = None

    @property
    def settings(self) -> Multihash:
        """Return the hash of all that a project says of it."""
        said = asdict(replace(self, span=None))
        return sha3_256(json.dumps(said, sort_keys=True).encode())

    def runs_query(self, query: Transform | None) -> bool:
        """Tell whether an engine for jobs can run the query of a source, if that has one."""
        return query is None or (
            isinstance(query, TransformSql) and query.engine.lower() == self.engine
        )

    def why_ingest(self, tags: Collection[str], size: int) -> str | None:
        """Return in words why it reads new files of so many bytes; None if it does not."""
        if self.steps is None:
            return None
        tag = next((each for each in self.steps.tags if each in tags), None)
        if tag is not None:
            return f"the tag {tag!r}"
        if self.steps.least is None or size < self.steps.least:
            return None
        return f"{size:,} bytes, from {self.steps.least:,} on"


def read_engines(reading: SettingsReader, value: Value) -> Mapping[str, OutsideEngine]:
    """Return the engines that a project names, by their names."""
    found = {}
    for name, entry in reading.any_mapping(value, ("engines",)).items():
        section = reading.section(entry, ("engines", name), _KEYS)
        if name in ENGINES or name in MERGERS:
            reading.refuse(
                ("engines", name),
                f"'{name}' is an engine of odfbuild itself",
                "queries for it are run here",
                "give the remote engine another name",
                key=True,
            )
        elif not _NAME.fullmatch(name):
            reading.refuse(
                ("engines", name),
                f"'{name}' is not a name of an engine",
                "queries name it, and blocks store that name",
                "use small letters, digits, and single '.', '-' or '_' between them",
                key=True,
            )
        else:
            kind = _kind(section)
            command = _command(section) if kind == "command" else ()
            image = _image(section) if kind == "image" else None
            address = _address(section) if kind == "address" else None
            if command:
                address = f"command:{command[0]}"
            elif image is not None:
                address = f"image:{image}"
            port, memory = _port(section), _memory(section)
            if address is not None:
                found[name] = OutsideEngine(
                    name=name,
                    address=address,
                    command=command,
                    image=image,
                    port=port,
                    memory=memory,
                    objects=_objects(section),
                    engine=section.text("engine") or name,
                    steps=_steps(section),
                    mounted=_mount_point(section),
                    limit=_limit(section),
                    span=reading.places.value(section.at(kind or "address")),
                )
    return found


def _kind(section: Section) -> str | None:
    """Return the key that says how the engine is reached; the first of several."""
    found = [each for each in _KINDS if each in section.entries]
    for each in found[1:]:
        section.wrong(
            each,
            f"the engine has '{found[0]}' and '{each}'",
            "it is reached at an address, or a command takes its requests as jobs, or its image is "
            "started for each request",
            "remove one of the two",
            at_key=True,
        )
    if not found:
        section.reading.refuse(
            section.path,
            f"{section.reading.called(section.path)} does not give 'address'",
            "it is the address of the engine",
            "add `address: HOST:PORT`, a `command` that takes its requests as jobs, or an `image`",
            key=True,
        )
    return found[0] if found else None


def _image(section: Section) -> str | None:
    text = section.text("image")
    if text is None or _IMAGE.fullmatch(text):
        return text
    section.wrong(
        "image",
        f"'{text}' does not name an image by its digest",
        "a tag may be another image tomorrow, which gives other rows",
        "write it like ghcr.io/acme/engine@sha256:..., which `podman image inspect` and "
        "`docker image inspect` show in RepoDigests",
    )
    return None


def _port(section: Section) -> int:
    if "port" not in section.entries or _is_of_another(section, "port"):
        return _PORT
    found = section.entries["port"]
    if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= _MOST_PORT:
        return found
    section.wrong(
        "port",
        f"{found!r} is not a port",
        "the engine listens there in its container",
        f"write one up to {_MOST_PORT}, or omit it: engines of the reference listen at {_PORT}",
    )
    return _PORT


def _memory(section: Section) -> int | None:
    text = section.text("memory")
    if text is None or _is_of_another(section, "memory"):
        return None
    found = parse_size(text)
    if found is not None and found >= _LEAST_MEMORY:
        return found
    section.wrong(
        "memory",
        f"'{text}' is not a size of at least {_LEAST_MEMORY >> 20} MiB",
        "the container gets no more memory",
        "write it like 4GB or 2GiB, or omit it",
    )
    return None


def _is_of_another(section: Section, key: str) -> bool:
    """Tell whether a key is only for engines with an image, and this one has none."""
    if "image" in section.entries:
        return False
    section.wrong(
        key,
        f"an engine without an image has no '{key}'",
        "it is about the container in which the image is started",
        "remove the key",
        at_key=True,
    )
    return True


def _command(section: Section) -> tuple[str, ...]:
    """Return the words of a command: a program of the machine, and its arguments."""
    reading, path = section.reading, section.at("command")
    words = tuple(
        reading.text(each, (*path, number), "")
        for number, each in enumerate(reading.items(section.entries["command"], path))
    )
    if not words or not all(words):
        section.wrong(
            "command",
            "the command has no program",
            "it is run for each step",
            f"write it like [odfbuild, step, run, '{REQUEST_PLACE}']",
        )
        return ()
    if ("/" in words[0] and not words[0].startswith("/")) or "\0" in "".join(words):
        section.wrong(
            "command",
            f"the program '{words[0]}' is neither a name nor an absolute path",
            "a program of the project could be changed without another permission",
            "name one that is installed on this machine",
        )
    if not any(REQUEST_PLACE in each for each in words[1:]):
        section.wrong(
            "command",
            f"no argument of the command has {REQUEST_PLACE}",
            "it is replaced by the location of each request",
            f"write it like [odfbuild, step, run, '{REQUEST_PLACE}']",
        )
    return words


def _objects(section: Section) -> str | None:
    text = section.text("objects")
    if text is None:
        return None
    if "command" not in section.entries:
        section.wrong(
            "objects",
            "an engine without a command has no objects",
            "it reads and writes files in the folder of the workspace",
            "remove the key, or give the engine a command",
            at_key=True,
        )
    elif not is_store(text):
        section.wrong(
            "objects",
            f"'{text}' is not a prefix of an object store",
            problem_of_store(text)
            or "jobs are written below it, for machines without a common folder",
            "write it like s3://BUCKET/PREFIX, or omit it",
        )
    return text


def _steps(section: Section) -> StepRule | None:
    """Return which steps go there, None if the entry says nothing of them."""
    if "steps" not in section.entries:
        return None
    if "command" not in section.entries or section.entries.get("engine") not in ENGINES:
        section.wrong(
            "steps",
            "the engine cannot carry out steps of others",
            f"a step of {' or '.join(ENGINES)} goes as a job to odfbuild itself, elsewhere",
            f"give it a command, and `engine: {next(iter(ENGINES))}`; or remove the key",
            at_key=True,
        )
        return None
    reading, path = section.reading, section.at("steps")
    rule = reading.section(section.entries["steps"], path, ("tags", "from", "targets"))
    size = rule.text("from")
    least = None if size is None else parse_size(size)
    if size is not None and not least:
        rule.wrong(
            "from",
            f"'{size}' is not a size",
            "steps that may read so much are carried out there",
            "write it like 500MB, 10GB or 1TiB",
        )
        return None
    found = StepRule(tags=_words(rule, "tags"), least=least, targets=_words(rule, "targets"))
    if not found.tags and found.least is None:
        section.wrong(
            "steps",
            "it says of no step that it is carried out there",
            "steps are chosen by tags of their datasets, and by how much they may read",
            "write it like {tags: [large]}, or {from: 10GB}",
        )
        return None
    return found


def _words(rule: Section, key: str) -> tuple[str, ...]:
    if key not in rule.entries:
        return ()
    reading, path = rule.reading, rule.at(key)
    entries = reading.items(rule.entries[key], path)
    if rule.entries[key] == []:
        rule.wrong(
            key,
            f"the list of {key} is empty",
            "it could mean each of them, or none",
            f"name some, or remove the key '{key}'",
        )
    words = (reading.text(each, (*path, number), "") for number, each in enumerate(entries))
    return tuple(each for each in words if each)


def _address(section: Section) -> str | None:
    text = section.text("address")
    if text is None:
        return None
    found = _ADDRESS.fullmatch(text)
    if found is not None and int(found[1]) <= _MOST_PORT:
        return text
    section.wrong(
        "address",
        f"'{text}' is not the address of an engine",
        "an engine is reached by host name or IP address, and a port",
        "write it like 127.0.0.1:5544",
    )
    return None


def _mount_point(section: Section) -> str | None:
    text = section.text("mounted")
    if text is not None and "image" in section.entries:
        section.wrong(
            "mounted",
            "an engine with an image does not see the folder of the workspace",
            "its container sees the files of one request",
            "remove the key",
            at_key=True,
        )
        return None
    if text is not None and "objects" in section.entries:
        section.wrong(
            "mounted",
            "an engine whose jobs are in an object store does not see the folder of the workspace",
            "it is given the address of each request, and no path",
            "remove 'mounted', or 'objects'",
            at_key=True,
        )
        return None
    if text is not None and (not text.startswith("/") or "\0" in text):
        section.wrong(
            "mounted",
            f"'{text}' is not an absolute path",
            "it is the path at which the engine sees the folder of the workspace",
            "write it like /opt/engine/workspace, or omit it",
        )
        return None
    return None if text is None else text.rstrip("/")


def _limit(section: Section) -> float:
    text = section.text("limit")
    millis = None if text is None else parse_lag(text)
    if text is not None and not millis:
        section.wrong(
            "limit",
            f"'{text}' is not a length of time",
            "it is the time limit of a step",
            "write it like 90s, 10m or 2h",
        )
    return _LIMIT if not millis else millis / 1000
