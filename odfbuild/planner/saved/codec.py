"""Values as JSON documents and back: forms that follow from types, errors with paths.  Pure.

A form writes a value and reads it.  That of a dataclass has a key a field, by the name of the field
unless it says otherwise; keys that no field asks for are not looked at.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from odfbuild.errors import OdfBuildError, PlanError
from odfbuild.values import dataclass


class NotAPlanError(PlanError):
    """A file or document is not a saved plan."""

    code = "not-a-plan"


class PlanVersionError(PlanError):
    """A plan was saved by a version of odfbuild whose plans this one cannot read."""

    code = "plan-version"


class DamagedPlanError(PlanError):
    """A saved plan is incomplete, or was changed after it was written; `path` says where."""

    code = "damaged-plan"

    def __init__(self, what: str, why: str, fix: str, *, path: str = "") -> None:
        super().__init__(what, why, fix)
        self.path = path

    @classmethod
    def at(cls, path: str, what: str) -> "DamagedPlanError":
        """Return the error about the value at a path."""
        return cls(
            what=f"the plan is damaged: {path or 'the plan'}: {what}",
            why="a saved plan is carried out exactly as it was written, or not at all",
            fix="save it again, as in: odfbuild plan --out FILE",
            path=path,
        )


class UnfitValueError(ValueError):
    """A value of a document that its form does not take; `path` leads there from the value read."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.path = path

    def below(self, step: str | int) -> "UnfitValueError":
        """Return the error as seen from the object or list that holds the value."""
        first = f"[{step}]" if isinstance(step, int) else step
        joint = "" if not self.path or self.path.startswith("[") else "."
        return UnfitValueError(self.what, f"{first}{joint}{self.path}")


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is written as JSON, and read: `read` raises UnfitValueError."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A field within the form of its dataclass.

    `key` may lead into inner objects by dots; None: the keys of its form are among those of the
    object.  `form` is by default that of the declared type.  What is `omitted`, which is asked of
    the object, is not written, and may lack when it is read: then the field has its default.
    """

    key: str | None
    form: Form | None = None
    omitted: Callable[[Any], bool] | None = None


def _plain(of: type, word: str) -> Form:
    def read(value: Any) -> Any:
        if type(value) is not of:
            raise UnfitValueError(f"expected {word}")
        return value

    return Form(lambda value: value, read)


TEXT = _plain(str, "a text")
NUMBER = _plain(int, "a whole number")
FLAG = _plain(bool, "true or false")


def converted(write: Callable[[Any], Any], make: Callable[[Any], Any]) -> Form:
    """Return the form of a value that `make` makes of another form, whatever errors it raises."""

    def read(value: Any) -> Any:
        try:
            return make(value)
        except OdfBuildError as error:
            raise UnfitValueError(error.what) from error
        except UnfitValueError:
            raise
        except ValueError as error:
            raise UnfitValueError(str(error)) from error

    return Form(write, read)


def parsed(parse: Callable[[str], Any], write: Callable[[Any], str] = str) -> Form:
    """Return the form of a value that is read from a text."""
    return converted(write, lambda value: parse(TEXT.read(value)))


def nullable(form: Form) -> Form:
    """Return the form of a value that may be None."""
    return Form(
        lambda value: None if value is None else form.write(value),
        lambda value: None if value is None else form.read(value),
    )


def blank(form: Form, of: Mapping[str, Any]) -> Form:
    """Return the form of a member without a key that may be None: then its keys are `of` these."""
    first = next(iter(of))

    def read(value: Any) -> Any:
        require(value, *of)
        if value[first] is not None:
            return form.read(value)
        for key, empty in of.items():
            if value[key] != empty:
                raise UnfitValueError(f"{first} is null, and this is not", key)
        return None

    return Form(lambda value: dict(of) if value is None else form.write(value), read)


def tuple_of(form: Form) -> Form:
    """Return the form of a tuple of values, a list."""

    def read(value: Any) -> Any:
        found = []
        for index, item in enumerate(_list(value)):
            try:
                found.append(form.read(item))
            except UnfitValueError as error:
                raise error.below(index) from error
        return tuple(found)

    return Form(lambda values: [form.write(item) for item in values], read)


def pair(keys: tuple[str, str], form: Form) -> Form:
    """Return the form of two values, an object with these keys."""
    return Form(
        lambda values: {key: form.write(item) for key, item in zip(keys, values, strict=True)},
        lambda value: tuple(read_at(require(value, *keys), key, form) for key in keys),
    )


def mapping_of(form: Form) -> Form:
    """Return the form of a mapping from texts, an object."""

    def read(value: Any) -> Any:
        return {key: read_at(_object(value), key, form) for key in _object(value)}

    return Form(lambda values: {key: form.write(item) for key, item in values.items()}, read)


def tagged(
    key: str, word: str, forms: Mapping[type, Form], spelled: Callable[[str], str] = str
) -> Form:
    """Return the form of a union of dataclasses: objects whose `key` has the name of the class."""
    tags = {of: spelled(of.__name__) for of in forms}
    classes = {tag: of for of, tag in tags.items()}

    def write(value: Any) -> Any:
        of = type(value)
        return {key: tags[of], **forms[of].write(value)}

    def read(value: Any) -> Any:
        tag = read_at(value, key, TEXT)
        if tag not in classes:
            raise UnfitValueError(f"there is no {word} {tag!r}", key)
        return forms[classes[tag]].read(value)

    return Form(write, read)


class Codec:
    """The forms of types: those that are given, and what follows from them."""

    def __init__(self, given: Mapping[Any, Form]) -> None:
        self._forms: dict[Any, Form] = dict(given)

    def of(self, declared: Any) -> Form:
        """Return the form of a declared type, made when it is first asked for."""
        if declared not in self._forms:
            self._forms[declared] = self._derived_form(declared)
        return self._forms[declared]

    def record(self, of: type, /, *left_out: str, **members: str | Member) -> Form:
        """Make the form of a dataclass, and keep it as that of the type.

        Keys come in the order of the fields, or of `members` if they are all there.  Fields that
        are `left_out` have their defaults when it is read.
        """
        types = get_type_hints(of)
        names = [each.name for each in fields(of) if each.name not in left_out]
        if members.keys() == {*names}:
            names = [*members]
        found = {name: self._member(members.get(name, name), types[name]) for name in names}
        self._forms[of] = _record(of, found)
        return self._forms[of]

    def _member(self, given: str | Member, declared: Any) -> "_Member":
        member = given if isinstance(given, Member) else Member(key=given)
        path = () if member.key is None else tuple(member.key.split("."))
        return _Member(path, member.form or self.of(declared), member.omitted)

    def _derived_form(self, declared: Any) -> Form:
        arguments = get_args(declared)
        if get_origin(declared) in (Union, UnionType) and type(None) in arguments:
            (left,) = (each for each in arguments if each is not type(None))
            return nullable(self.of(left))
        if get_origin(declared) is tuple and arguments[1:] == (...,):
            return tuple_of(self.of(arguments[0]))
        if isinstance(get_origin(declared), type) and issubclass(get_origin(declared), Mapping):
            return mapping_of(self.of(arguments[1]))
        if is_dataclass(declared) and isinstance(declared, type):
            return self.record(declared)
        if isinstance(declared, type) and issubclass(declared, Enum):
            return parsed(declared, lambda member: member.value)
        raise TypeError(f"no form of {declared} is known")


@dataclass(frozen=True, slots=True)
class _Member:
    """A field: the keys that lead to its value, its form, and when it is not written."""

    path: tuple[str, ...]
    form: Form
    omitted: Callable[[Any], bool] | None


def _record(of: type, members: Mapping[str, _Member]) -> Form:
    required = [m.path[0] for m in members.values() if m.path and m.omitted is None]
    needed = frozenset(required)

    def write(value: Any) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for name, member in members.items():
            if member.omitted is not None and member.omitted(value):
                continue
            written, at = member.form.write(getattr(value, name)), document
            if not member.path:
                document.update(written)
                continue
            for key in member.path[:-1]:
                at = at.setdefault(key, {})
            at[member.path[-1]] = written
        return document

    readers = [
        (name, member.path[0] if member.path else None, _reader(member), member.omitted is None)
        for name, member in members.items()
    ]

    def read(value: Any) -> Any:
        document = _object(value)
        if not needed <= document.keys():
            require(document, *required)
        found, key = {}, None
        try:
            for name, key, read_member, is_required in readers:
                if key is None:
                    found[name] = read_member(document)
                elif is_required or key in document:
                    found[name] = read_member(document[key])
        except UnfitValueError as error:
            raise (error if key is None else error.below(key)) from error
        return of(**found)

    return Form(write, read)


def require(value: Any, *keys: str) -> Mapping[str, Any]:
    """Return an object that has keys.  Raises UnfitValueError that names all that it lacks."""
    document = _object(value)
    missing = dict.fromkeys(key for key in keys if key not in document)
    if missing:
        raise UnfitValueError(f"it lacks {', '.join(missing)}")
    return document


def _reader(member: _Member) -> Callable[[Any], Any]:
    """Return what reads the value of the first key of a member, or the object without one."""
    form = member.form
    for key in reversed(member.path[1:]):
        form = Form(form.write, partial(read_at, key=key, form=form))
    return form.read


def read_at(document: Any, key: str, form: Form) -> Any:
    """Return the value of a key of an object.  Raises UnfitValueError."""
    document = require(document, key)
    try:
        return form.read(document[key])
    except UnfitValueError as error:
        raise error.below(key) from error


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UnfitValueError("expected an object")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UnfitValueError("expected a list")
    return value
