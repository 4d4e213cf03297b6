"""Values as the YAML text that is written into a file of the user.

Lists stand two columns further in than their key; texts are bare where nothing could take them for
something else.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from odfbuild.odf.yaml_text import yaml_text

__all__ = ["block_lines", "flow_text", "scalar_text"]

_OF_FLOW = frozenset(",[]{}")


def scalar_text(value: Any, *, like: str = "", flow: bool = False) -> str:
    """Return a scalar in one line; a text in the quotes that `like` is, if it can stand in them."""
    if not isinstance(value, str):
        return yaml_text(value).removesuffix("\n")
    if "\n" in value or not value.isprintable() or like == '"':
        return _quoted(value)
    bare = yaml_text(value).removesuffix("\n")
    if like == "'" or (flow and not _OF_FLOW.isdisjoint(value)):
        return "'" + value.replace("'", "''") + "'"
    return bare


def flow_text(value: Any) -> str:
    """Return a value in braces and brackets, in one line."""
    if isinstance(value, Mapping):
        entries = (f"{flow_text(key)}: {flow_text(item)}" for key, item in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow_text, value))}]"
    return scalar_text(value, flow=True)


def block_lines(value: Any) -> Iterator[str]:
    """Yield the lines of a value, each entry of a collection in its own."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _under(f"{scalar_text(key)}:", item)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            first, *rest = block_lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield flow_text(value) if isinstance(value, Mapping | list | tuple) else scalar_text(value)


def _under(key: str, value: Any) -> Iterator[str]:
    lines = block_lines(value)
    if isinstance(value, Mapping | list | tuple) and value:
        yield key
        yield from (f"  {line}" for line in lines)
    else:
        yield f"{key} {next(lines)}"


def _quoted(text: str) -> str:
    """Return a text in double quotes, with escapes for what cannot be seen."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in plain)
