"""The reference of the Python API: signatures and docstrings of all public names of the package."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import odfbuild

__all__ = ["members_of", "python_page"]

_WIDTH = 88
_TITLE = "## Reference"
_QUALIFIER = re.compile(r"\b(?:[a-z_][a-z_0-9]*\.)+(?=[A-Z])")
_SHORT_DEFAULT = 24
_KINDS = (
    ("Functions", inspect.isfunction),
    ("Classes", lambda each: inspect.isclass(each) and not issubclass(each, Exception)),
    ("Errors", lambda each: inspect.isclass(each) and issubclass(each, Exception)),
)


def python_page(path: Path, mark: str) -> str:
    """Return the page with what is written by hand, and the reference below a mark."""
    written = path.read_text("utf-8").partition(mark)[0].rstrip()
    parts = [f"{written}\n\n{mark}\n\n{_TITLE}\n"]
    for title, fits in _KINDS:
        parts.append(f"### {title}\n")
        for name in sorted(odfbuild.__all__):
            found = getattr(odfbuild, name)
            if fits(found):
                parts.append("\n".join(_entry(name, found)))
    return "\n".join(parts)


def members_of(found: type) -> Iterator[tuple[str, Any]]:
    """Yield public methods and properties that a class defines, in their order."""
    for name, member in vars(found).items():
        is_method = isinstance(member, classmethod | property) or inspect.isfunction(member)
        if is_method and not name.startswith("_"):
            yield name, member


def _entry(name: str, found: Any) -> Iterator[str]:
    yield from (f"#### {name}", "")
    if not inspect.isclass(found):
        yield from (*_signature(name, found), *_text(found))
        return
    yield from _text(found)
    if issubclass(found, Exception):
        base = found.__bases__[0]
        kind = "" if base is Exception else f"A kind of {base.__name__}. "
        code = vars(found).get("code")
        yield from (kind.rstrip() if code is None else f"{kind}Code: `{code}`.", "")
        return
    if is_dataclass(found) and not issubclass(found, odfbuild.DataProject):
        names = [f"`{each.name}`" for each in fields(found) if not each.name.startswith("_")]
        yield from (f"Fields: {', '.join(names)}.", "")
    properties = [(each, of) for each, of in members_of(found) if isinstance(of, property)]
    for member, value in properties:
        returned = _type(inspect.signature(value.fget).return_annotation)  # type: ignore[arg-type]
        yield f"- `{member}`: `{returned}`. {' '.join(_text(value)).strip()}"
    if properties:
        yield ""
    for member, value in members_of(found):
        if not isinstance(value, property):
            of = getattr(value, "__func__", value)
            yield from (*_signature(f"{name}.{member}", of), *_text(of))


def _text(found: Any) -> Iterator[str]:
    yield from (inspect.getdoc(found) or "").splitlines()
    yield ""


def _signature(name: str, found: Any) -> Iterator[str]:
    """Yield a signature as code: in one line if it fits, else a parameter a line."""
    signature = inspect.signature(found)
    parts: list[str] = []
    for each in signature.parameters.values():
        if each.name in ("self", "cls") and not parts:
            continue
        if each.kind is each.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        kind = "" if each.annotation is each.empty else f": {_type(each.annotation)}"
        parts.append(f"{each.name}{kind}{_default(each.default)}")
    returned = _type(signature.return_annotation)
    line = f"{name}({', '.join(parts)}) -> {returned}"
    yield "```py"
    if len(line) <= _WIDTH:
        yield line
    else:
        yield f"{name}("
        yield from (f"    {each}," for each in parts)
        yield f") -> {returned}"
    yield from ("```", "")


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    text = repr(value)
    return f" = {text if len(text) <= _SHORT_DEFAULT and '<' not in text else '...'}"


def _type(annotation: Any) -> str:
    """Return a type without modules, but `pa` and `pc` of pyarrow."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.strip("'\"").replace("'", "")
    return _QUALIFIER.sub(lambda found: found[0] if found[0] in ("pa.", "pc.") else "", text)
