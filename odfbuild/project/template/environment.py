"""Jinja environment: sandboxed, strict, the same on every run, and with exact places.

Jinja knows lines only.  Every token is given its offset in the text (from 1) in place of its line,
so whatever Jinja says of lines, in a syntax tree, an error or compiled code, names an exact place.
This module and its siblings that import jinja2 are imported only when there is a template.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import TemplateRuntimeError, TemplateSyntaxError, UndefinedError
from jinja2.lexer import Lexer, TokenStream
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from odfbuild.project.template.bounds import (
    LimitError,
    bounded_filters,
    check_format,
    check_method,
    check_size,
    weigh,
)
from odfbuild.project.template.names import TemplateNames, UnprintableError, plain, shown
from odfbuild.project.yaml.places import SourceText
from odfbuild.values import dataclass

MAX_OUTPUT = 16 * 1024 * 1024
MAX_STEPS = 1_000_000

_SIZE_OF_STEP = 256
_MAX_BITS = 10_000
_BEGINS = ("variable_begin", "block_begin")
_ENDS = ("variable_end", "block_end")


class UndefinedNameError(UndefinedError):
    """A name is not defined; `owner` is what it was looked for in, `missing` of a plain name."""

    def __init__(self, message: str, owner: object, name: object) -> None:
        super().__init__(message)
        if isinstance(name, Undefined):  # what was looked for by it is not the first to miss
            owner, name = missing, name._undefined_name
        self.owner = None if owner is missing else owner
        self.is_plain = owner is missing
        self.name = name


class Loader(BaseLoader):
    """Finds what templates import: `find` returns a file by its name, None if there is none."""

    def __init__(self, find: Callable[[str], SourceText | None], names: Callable[[], list[str]]):
        self._find = find
        self.names = names

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        assert isinstance(environment, TemplateEnvironment)  # noqa: S101 - it is the only user
        found = self._find(template)
        if found is None:
            raise TemplateNotFound(template)
        return environment.add(found), found.file, None


@dataclass(slots=True)
class TemplateText:
    """The text of a template with its line ends made one, and where its tags begin and end."""

    source: SourceText
    tags: list[tuple[int, int]] = field(default_factory=list)

    def tag(self, offset: int) -> tuple[int, int] | None:
        """Return the tag that holds an offset."""
        return next((each for each in self.tags if each[0] <= offset < each[1]), None)


class _Absent(StrictUndefined):
    """Keeps what was looked for, so that something better can be proposed."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        super().__init__(hint, obj, name, exc)
        if exc is UndefinedError:
            raised: Any = lambda message: UndefinedNameError(message, obj, name)  # noqa: E731
            self._undefined_exception = raised


class Code(CodeGenerator):
    """Writes loops that are counted, and texts joined as they print.

    Slices and comparisons are charged for what they look through.
    """

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        node.iter = _method_call("counted", node.iter)
        super().visit_For(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            node.node = _method_call("weighed", node.node)
        super().visit_Getitem(node, frame)

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        node.expr = _method_call("weighed", node.expr)
        super().visit_Compare(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.visit(_method_call("joined", nodes.List(node.nodes, lineno=node.lineno)), frame)

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData | nodes.Const):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja for the templates of one project or package; `names` can be read by all of them."""

    code_generator_class: type[CodeGenerator] = Code
    intercepted_binops = frozenset(("*", "**", "+", "%"))

    def __init__(self, loader: Loader, names: Mapping[str, object]) -> None:
        self._own_lexer: Lexer | None = None
        super().__init__(
            loader=loader,
            undefined=_Absent,
            finalize=_finalize,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            optimized=False,
            auto_reload=False,
            cache_size=-1,
        )
        self.texts: dict[str, TemplateText] = {}
        self.steps = 0
        del self.globals["lipsum"]
        self.filters["tojson"] = _json
        self.filters = bounded_filters(self.filters, self)
        self.globals.update(names)

    def add(self, source: SourceText) -> str:
        """Take in the text of a file, and return it as it is to be compiled."""
        text = source.text.replace("\r\n", "\n").replace("\r", "\n")
        kept = source if text == source.text else SourceText(source.file, text)
        self.texts[source.file] = TemplateText(kept)
        return text

    def step(self) -> None:
        """Count one turn of a loop, or one call."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise LimitError(f"more than {MAX_STEPS:,} iterations and calls")

    def spend(self, size: int) -> None:
        """Charge for a text or list of a length: as one step for some hundred characters."""
        self.steps += size // _SIZE_OF_STEP
        if self.steps > MAX_STEPS:
            raise LimitError(f"more work than {MAX_STEPS:,} iterations and calls")

    def weighed(self, value: Any) -> Any:
        """Charge for a value that is looked through, and return it."""
        if isinstance(value, str | list | tuple):
            self.spend(len(value))
        return value

    def concat(self, parts: Iterable[str]) -> str:
        """Join the output of a macro or block."""
        texts = list(parts)
        size = sum(map(len, texts))
        if size > MAX_OUTPUT:
            raise LimitError(f"more than {MAX_OUTPUT:,} characters of output")
        self.spend(size)
        return "".join(texts)

    def counted(self, values: Iterable[Any]) -> "_Counted":
        return _Counted(values, self.step)

    def joined(self, values: list[object]) -> str:
        texts = list(map(_finalize, values))
        size = sum(map(len, texts))
        check_size(size)
        self.spend(size)
        return "".join(texts)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.step()
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            self.spend(len(owner))
            if obj.__name__ == "join":
                args = tuple(map(list, args))
            check_method(owner, obj.__name__, args)
        return super().call(context, obj, *args, **kwargs)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, TemplateNames) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        run = super().wrap_str_format(value)
        if run is None:
            return None

        def bounded(*args: Any, **kwargs: Any) -> str:
            check_format(value.__self__, (*args, *kwargs.values()))
            return run(*args, **kwargs)

        return bounded

    def getitem(self, obj: Any, argument: Any) -> Any:
        if not isinstance(argument, str | int):
            weigh(argument)  # it may get into a message
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator:
            case "**":
                _check_power(left, right)
            case "+":
                self._check_added(left, right)
            case "%":
                _check_filled(left, right)
            case _:
                _check_repeated(left, right)
                _check_repeated(right, left)
        return super().call_binop(context, operator, left, right)

    def _check_added(self, left: object, right: object) -> None:
        if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            check_size(len(left) + len(right))
            self.spend(len(left) + len(right))

    @property
    def lexer(self) -> Lexer:
        if self._own_lexer is None:
            self._own_lexer = _lexer(self)
        return self._own_lexer

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        tokens = self._with_offsets(source, name, filename, state)
        return TokenStream(self.lexer.wrap(tokens, name, filename), name, filename)

    def _with_offsets(
        self, source: str, name: str | None, filename: str | None, state: str | None
    ) -> Iterator[tuple[int, str, str]]:
        """Yield the tokens with their offsets; between two of them there is white space only."""
        tags = self.texts[filename].tags if filename in self.texts else []
        start = end = begun = 0
        try:
            for _, kind, value in self.lexer.tokeniter(source, name, filename, state):
                start = source.index(value, end)
                end = start + len(value)
                if kind in _BEGINS:
                    begun = start
                elif kind in _ENDS:
                    tags.append((begun, start + len(value.rstrip())))
                yield start + 1, kind, value
        except TemplateSyntaxError as error:
            rest = source[end:]
            at = start if "end of" in str(error) else end + len(rest) - len(rest.lstrip())
            error.lineno, error.filename = at + 1, filename
            raise


class _Counted:
    """What a loop goes over, with every turn counted."""

    def __init__(self, values: Iterable[Any], step: Callable[[], None]) -> None:
        iter(values)
        self._values = values
        self._step = step

    def __iter__(self) -> Iterator[Any]:
        for each in self._values:
            self._step()
            yield each

    def __len__(self) -> int:
        return len(self._values)  # type: ignore[arg-type]  # Jinja takes a TypeError for an answer


def _method_call(method: str, argument: nodes.Node) -> nodes.Call:
    place = argument.lineno
    function = nodes.EnvironmentAttribute(method, lineno=place)
    return nodes.Call(function, [argument], [], None, None, lineno=place)


def _lexer(environment: Environment) -> Lexer:
    """Return a lexer that leaves `${{ ... }}` alone: ODF fills it in when data is fetched."""
    lexer = Lexer(environment)
    first, *rest = lexer.rules["root"]
    pattern = first.pattern.pattern.replace("(?P<variable_begin>", r"(?P<variable_begin>(?<!\$)")
    lexer.rules["root"] = [first._replace(pattern=re.compile(pattern, re.M | re.S)), *rest]
    return lexer


def _finalize(value: object) -> str:
    """Return how a value prints; an undefined one says so itself."""
    if type(value) is not str:
        weigh(value)
    try:
        return shown(value)
    except UnprintableError as error:
        if isinstance(error.value, Undefined):
            return str(error.value)
        raise


def _json(value: object) -> str:
    import json

    weigh(value)
    return json.dumps(plain(value), ensure_ascii=False)


def _check_repeated(value: object, times: object) -> None:
    if isinstance(value, str | list | tuple) and isinstance(times, int):
        check_size(len(value) * times)


def _check_filled(text: object, values: object) -> None:
    if isinstance(text, str):
        given = values if isinstance(values, tuple) else (values,)
        check_format(text, given)


def _check_power(base: object, exponent: object) -> None:
    if isinstance(base, int) and isinstance(exponent, int):
        bits = base.bit_length() * exponent
        if bits > _MAX_BITS:
            raise LimitError(f"a power of {bits:,} bits")
