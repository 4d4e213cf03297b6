"""Dataclasses of `odfbuild.values` behave as those of the standard library."""

import ast
import copy
import dataclasses
import inspect
import itertools
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from operator import ge, lt
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import odfbuild
from odfbuild import values
from odfbuild.values import dataclass

PACKAGE = Path(odfbuild.__file__).parent
SWITCHES = ("frozen", "slots", "kw_only", "eq", "repr", "order")
CALLS: tuple[tuple[tuple[object, ...], dict[str, object]], ...] = (
    ((), {}),
    ((1, 2), {}),
    ((1, 2, [3]), {}),
    ((1,), {"second": 2}),
    ((), {"first": 1, "second": 2}),
    ((), {"first": 1, "second": 2, "third": [3], "fourth": 4}),
    ((), {"first": 1, "second": 2, "fifth": 5}),
    ((1, 2, [3], 4), {"first": 1}),
    ((1, 2), {"other": 1}),
)


def classes(decorator: Callable[..., Any], switches: dict[str, bool]) -> tuple[type[Any], ...]:
    """Return a class of each kind of fields, one that inherits, and two with methods of its own."""
    of = decorator(**switches)

    @of
    class Fields:
        first: int
        second: int = dataclasses.field(compare=False)
        third: list[int] = dataclasses.field(default_factory=list, repr=False)
        fourth: int = 4
        fifth: int = dataclasses.field(default=5, init=False)

    @of
    class Nothing:
        pass

    @of
    class Below(Fields):
        """One with a field more, and one that is given another default."""

        fourth: int = 44
        sixth: int = dataclasses.field(default=6, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "fifth", self.first)

    @of
    class Own:
        first: int
        second: int

        def __init__(self, first: int, second: int = 2) -> None:
            object.__setattr__(self, "first", first)
            object.__setattr__(self, "second", second)

        def __repr__(self) -> str:
            return "own"

    @of
    class Equal:
        first: int
        second: int = 2

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Equal)

        __hash__ = None  # type: ignore[assignment]

    return Fields, Nothing, Below, Own, Equal


def told(cls: type[Any]) -> Iterator[object]:
    """Yield what is seen of a class and of values of it, errors by their type."""
    yield [(each.name, each.init, each.kw_only) for each in dataclasses.fields(cls)]
    yield {name: hint.__name__ for name, hint in get_type_hints(cls.__init__).items()}
    shown = (each.replace(default=None) for each in inspect.signature(cls).parameters.values())
    yield [str(each) for each in shown]
    yield cls.__match_args__, cls.__qualname__, cls.__dict__.get("__slots__"), bool(cls.__doc__)
    made: list[Any] = []
    for args, named in CALLS:
        value = outcome(partial(new, cls, args, named))
        yield value if isinstance(value, type) else repr(value).partition(" at 0x")[0]
        if not isinstance(value, type):
            made.append(value)
    for value in made:
        yield from of_value(value)
    for one, other in itertools.product(made, repeat=2):
        yield one == other
        yield outcome(partial(lt, one, other))
        yield outcome(partial(ge, one, other))
        yield outcome(partial(hashes_agree, one, other))


def of_value(value: Any) -> Iterator[object]:
    """Yield what becomes of a value that is changed, copied and compared."""
    fields = [each.name for each in dataclasses.fields(value)]
    shown = [getattr(value, name) for name in fields]
    yield shown
    yield value == shown, outcome(lambda: value < shown)
    for name in ("first", "nowhere"):
        other = copy.copy(value)
        for change in (partial(setattr, other, name, 9), partial(delattr, other, name)):
            yield isinstance(outcome(change), type)  # with slots Python 3.11 says a TypeError
    replaced = outcome(lambda: dataclasses.replace(value, second=8))
    yield replaced if isinstance(replaced, type) else [getattr(replaced, each) for each in fields]
    for again in (copy.copy(value), copy.deepcopy(value)):
        yield [getattr(again, name) for name in fields] == shown
    yield hasattr(value, "__dict__")
    with suppress(TypeError):
        yield outcome(lambda: dataclasses.astuple(value))


def new(cls: Any, args: tuple[object, ...], named: dict[str, object]) -> object:
    return cls(*args, **named)


def hashes_agree(one: object, other: object) -> bool:
    return hash(one) == hash(other) or one != other


def outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("chosen", list(itertools.product((False, True), repeat=len(SWITCHES))))
def test_every_choice_behaves_as_that_of_the_standard_library(chosen: tuple[bool, ...]) -> None:
    switches = dict(zip(SWITCHES, chosen, strict=True))
    if switches["order"] and not switches["eq"]:
        switches["order"] = False  # refused by the standard library
    for ours, theirs in zip(
        classes(dataclass, switches), classes(dataclasses.dataclass, switches), strict=True
    ):
        assert list(told(ours)) == list(told(theirs))


@pytest.mark.parametrize("chosen", list(itertools.product((False, True), repeat=3)))
@pytest.mark.parametrize("call", CALLS)
def test_the_first_value_is_that_of_the_standard_library(
    chosen: tuple[bool, ...], call: tuple[tuple[object, ...], dict[str, object]]
) -> None:
    switches = dict(zip(SWITCHES, chosen, strict=False))
    for ours, theirs in zip(
        classes(dataclass, switches), classes(dataclasses.dataclass, switches), strict=True
    ):
        made, meant = (outcome(partial(new, cls, *call)) for cls in (ours, theirs))
        if isinstance(meant, type):
            assert made is meant
        else:
            assert repr(made) == repr(meant)
            assert list(of_value(made)) == list(of_value(meant))


@dataclass(frozen=True, slots=True)
class Stored:
    first: int
    second: tuple[int, ...] = ()


def test_a_frozen_value_with_slots_is_pickled() -> None:
    value = Stored(1, (2,))
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301


def test_a_match_takes_a_value_apart() -> None:
    match Stored(1, (2,)):
        case Stored(first, (second,)):
            assert (first, second) == (1, 2)


def test_init_is_compiled_once_a_few_values_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    whole = values._compiled_init

    def counted(cls: type[Any], *, frozen: bool) -> Callable[..., None]:
        compiled.append(cls.__name__)
        return whole(cls, frozen=frozen)

    monkeypatch.setattr(values, "_compiled_init", counted)

    @dataclass(frozen=True, slots=True)
    class Late:
        first: int

    assert [Late(each).first for each in range(values._FEW)] == list(range(values._FEW))
    assert compiled == []
    assert [Late(each).first for each in range(3)] == [0, 1, 2]
    assert compiled == ["Late"]


def test_what_init_is_not_given_is_said_as_python_says_it() -> None:
    with pytest.raises(TypeError, match=r"Stored.__init__\(\) missing 1 required positional"):
        Stored()  # type: ignore[call-arg]


def test_all_dataclasses_are_made_in_this_way() -> None:
    others = []
    for module in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "dataclasses":
                names = {each.name for each in node.names}
                others += [module.relative_to(PACKAGE).as_posix()] if "dataclass" in names else []
    assert sorted(set(others)) == ["odf/record.py", "values.py"]
