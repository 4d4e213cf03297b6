"""Engines elsewhere: the `engines` setting, by the names that queries have for them."""

import re
from collections.abc import Mapping
from typing import Final

from odfbuild.errors import SourceSpan
from odfbuild.project.config.engines import ENGINES, MERGERS
from odfbuild.project.config.quantities import parse_lag
from odfbuild.project.config.settings import Section, SettingsReader
from odfbuild.project.yaml import Value
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

_KEYS: Final = ("address", "engine", "mounted", "limit")
_NAME: Final = late_pattern(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*", re.ASCII)
_ADDRESS: Final = late_pattern(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\]):([1-9][0-9]{0,4})",
    re.ASCII,
)
_LIMIT: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideEngine:
    """An engine that is reached over gRPC (ODF 0.34.1, "Engine Contract").

    `engine` is what it calls itself, in requests; `mounted` where it sees the folder of the
    workspace, None for the same path; `limit` how many seconds it may take for an answer; `span`
    where its address is written.
    """

    name: str
    address: str
    engine: str
    mounted: str | None = None
    limit: float = _LIMIT
    span: SourceSpan | None = None


def read_engines(reading: SettingsReader, value: Value) -> Mapping[str, OutsideEngine]:
    """Return the engines that a project names, by their names."""
    found = {}
    for name, entry in reading.any_mapping(value, ("engines",)).items():
        section = reading.section(entry, ("engines", name), _KEYS, ("address",))
        if name in ENGINES or name in MERGERS:
            reading.refuse(
                ("engines", name),
                f"'{name}' is an engine of odfbuild itself",
                "queries for it are run here",
                "give the engine elsewhere a name of its own",
                key=True,
            )
        elif not _NAME.fullmatch(name):
            reading.refuse(
                ("engines", name),
                f"'{name}' is not a name of an engine",
                "queries name it, and blocks keep that",
                "use small letters, digits, and single '.', '-' or '_' between them",
                key=True,
            )
        else:
            address = _address(section)
            if address is not None:
                found[name] = OutsideEngine(
                    name=name,
                    address=address,
                    engine=section.text("engine") or name,
                    mounted=_mounted(section),
                    limit=_limit(section),
                    span=reading.places.value(section.at("address")),
                )
    return found


def _address(section: Section) -> str | None:
    text = section.text("address")
    if text is None:
        return None
    found = _ADDRESS.fullmatch(text)
    if found is not None and int(found[1]) <= 65_535:
        return text
    section.wrong(
        "address",
        f"'{text}' is not the address of an engine",
        "engines are reached by name or number of a machine, and a port",
        "write it like 127.0.0.1:5544",
    )
    return None


def _mounted(section: Section) -> str | None:
    text = section.text("mounted")
    if text is not None and (not text.startswith("/") or "\0" in text):
        section.wrong(
            "mounted",
            f"'{text}' is not an absolute path",
            "it is where the engine sees the folder of the workspace",
            "write it like /opt/engine/workspace, or leave it out",
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
            "an engine that takes longer for a step is given up",
            "write it like 90s, 10m or 2h",
        )
    return _LIMIT if not millis else millis / 1000
