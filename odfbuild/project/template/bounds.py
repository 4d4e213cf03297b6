"""Bounds on what an expression of a template may make and cost, checked before it is made.

A few characters can ask for a text of gigabytes (`'a' | center(10 ** 10)`) or for hours of work.
So texts and lists have a greatest length, and what goes through a filter, a method or a print is
charged by its length, as turns of loops are: see `MAX_STEPS`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import Signature, signature
from typing import Any, Protocol, TypeAlias

from jinja2 import Environment, pass_environment
from jinja2.filters import make_attrgetter

from odfbuild.project.template.names import shown

MAX_MADE = 1_000_000

_Given: TypeAlias = Mapping[str, Any]  # the arguments of a filter by name

_MAX_DIGITS = 400
_LEFT_OUT = ("random", "pprint", "urlize", "xmlattr")
_WIDE = re.compile(r"[0-9]{7,}|%(?:\([^)]*\))?[-+ #0-9.]*\*|:[^{}]*\{")
_PASSED = ("context", "eval_ctx", "environment", "env")
_PADDED = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})


class LimitError(Exception):
    """A template does more than any needs to."""


class Meter(Protocol):
    """Counts what a template costs."""

    def spend(self, size: int) -> None:
        """Charge for a text or list of that length; LimitError when it is too much in all."""


def check_size(size: int) -> None:
    """Refuse to make a text or list of a length.  Raises LimitError."""
    if size > MAX_MADE:
        raise LimitError(f"a text or list of a length of {size:,}")


def check_format(text: str, values: Iterable[object]) -> None:
    """Refuse to fill in a format that may give a very long text.  Raises LimitError."""
    if _WIDE.search(text):
        raise LimitError("a format with a width that is computed, or has seven digits")
    longest = max((weigh(each) for each in values), default=0)
    check_size(len(text) + longest * (text.count("%") + text.count("{")))


def check_method(text: str, name: str, args: tuple[Any, ...]) -> None:
    """Refuse to call a method of a text that may give a very long one.  Raises LimitError."""
    if name in _PADDED:
        times = text.count("\t") if name == "expandtabs" else 1
        check_size(len(text) + times * max((each for each in args if _is_number(each)), default=0))
    elif name == "replace":
        _check_replacing(text, *args)
    elif name == "join":
        for values in args:
            check_size(weigh(values) + len(text) * len(values))


def weigh(value: object) -> int:
    """Return how long a value is as a text, about; LimitError as soon as it is too long."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, Mapping):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each
        size += 1
        check_size(size + len(waiting))
    return size


def bounded_filters(
    filters: Mapping[str, Callable[..., Any]], meter: Meter
) -> dict[str, Callable[..., Any]]:
    """Return filters that refuse to make what is too long, and are charged for what they take."""
    return {
        name: _bound(name, _OWN.get(name, each), meter)
        for name, each in filters.items()
        if name not in _LEFT_OUT
    }


def _bound(name: str, run: Callable[..., Any], meter: Meter) -> Callable[..., Any]:
    check = _CHECKS.get(name)
    form = None if check is None else _form(run)
    first = 1 if hasattr(run, "jinja_pass_arg") else 0

    @wraps(run)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        value = args[first]
        if isinstance(value, str | list | tuple):
            meter.spend(len(value))
        if check is not None and form is not None:
            given = form.bind(*args[first:], **kwargs)
            given.apply_defaults()
            check(value, given.arguments)
        made = run(*args, **kwargs)
        if isinstance(made, str):
            meter.spend(len(made))
        return made

    return bounded


def _form(run: Callable[..., Any]) -> Signature:
    """Return what a filter takes, without what Jinja passes in front."""
    form = signature(run)
    taken = [each for name, each in form.parameters.items() if name not in _PASSED]
    return form.replace(parameters=taken)


@pass_environment
def _join(
    environment: Environment,
    value: Iterable[object],
    d: object = "",
    attribute: str | int | None = None,
) -> str:
    """Join values as they print."""
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    parts, between = [], shown(d)
    size = 0
    for each in value:
        weigh(each)
        parts.append(shown(each))
        size += len(parts[-1]) + len(between)
        check_size(size)
    return between.join(parts)


def _string(value: object) -> str:
    """Return a value as it prints: of an object that does not, its address would be told."""
    weigh(value)
    return shown(value)


@pass_environment
def _sum(
    environment: Environment,
    iterable: Iterable[Any],
    attribute: str | int | None = None,
    start: Any = 0,
) -> Any:
    """Add up values; lists are copied with every one that is added."""
    if attribute is not None:
        iterable = map(make_attrgetter(environment, attribute), iterable)
    values = list(iterable)
    if not isinstance(start, int | float):
        check_size(len(values) ** 2)
        check_size(sum(map(weigh, values)))
    return sum(values, start)


def _check_replaced(value: object, given: _Given) -> None:
    _check_replacing(str(value), given["old"], given["new"])


def _check_replacing(text: str, old: str, new: str, *_: object) -> None:
    check_size(len(text) + max(0, len(new) - len(old)) * text.count(old))


def _check_padded(_: object, given: _Given) -> None:
    check_size(given["width"])


def _check_indented(value: object, given: _Given) -> None:
    text, width = str(value), given["width"]
    check_size(len(text) + (len(width) if isinstance(width, str) else width) * (1 + _lines(text)))


def _check_wrapped(value: object, given: _Given) -> None:
    check_size(len(str(value)) * (1 + len(given["wrapstring"] or "")))


def _check_formatted(value: object, given: _Given) -> None:
    check_format(str(value), (*given["args"], *given["kwargs"].values()))


def _check_rounded(_: object, given: _Given) -> None:
    if abs(given["precision"]) > _MAX_DIGITS:
        raise LimitError(f"a number with {abs(given['precision']):,} digits")


def _check_batch(_: object, given: _Given) -> None:
    check_size(given["linecount"])


def _check_slices(_: object, given: _Given) -> None:
    check_size(given["slices"])


def _lines(text: str) -> int:
    return len(text.splitlines())


def _is_number(value: object) -> bool:
    return isinstance(value, int)


_OWN: Mapping[str, Callable[..., Any]] = {"join": _join, "string": _string, "sum": _sum}
_CHECKS: Mapping[str, Callable[[object, _Given], None]] = {
    "batch": _check_batch,
    "center": _check_padded,
    "format": _check_formatted,
    "indent": _check_indented,
    "replace": _check_replaced,
    "round": _check_rounded,
    "slice": _check_slices,
    "wordwrap": _check_wrapped,
}
