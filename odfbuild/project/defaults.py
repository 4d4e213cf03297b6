"""Defaults: what the project says of datasets by selector, beyond their definitions."""

from dataclasses import dataclass

from odfbuild.errors import SourceSpan
from odfbuild.planner.policy import OnQueryChange
from odfbuild.project.settings import SettingsReader
from odfbuild.project.yaml import Value

__all__ = ["Default", "read_defaults"]

_KEYS = ("tags", "owner", "on_query_change")


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """Traits of the datasets that a selector finds; None where it says nothing."""

    selector: str
    tags: tuple[str, ...] = ()
    owner: str | None = None
    on_query_change: OnQueryChange | None = None
    span: SourceSpan


def read_defaults(reading: SettingsReader, value: Value) -> tuple[Default, ...]:
    """Return the defaults of a project, in the order in which they are written."""
    found = []
    for selector, item in reading.any_mapping(value, ("defaults",)).items():
        entry = reading.section(item, ("defaults", selector), _KEYS)
        change = entry.choice("on_query_change", [each.value for each in OnQueryChange])
        found.append(
            Default(
                selector=selector,
                tags=tuple(reading.texts(entry.entries.get("tags"), entry.at("tags"))),
                owner=entry.text("owner"),
                on_query_change=None if change is None else OnQueryChange(change),
                span=entry.span(),
            )
        )
    return tuple(found)
