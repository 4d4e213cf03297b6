"""Tracing templates, which record the part of a file that wrote each part of their output."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Template, nodes
from jinja2.compiler import CodeGenerator, Frame

from odfbuild.project.template.environment import Code, TemplateEnvironment
from odfbuild.project.template.rendered import Piece


class TracingEnvironment(TemplateEnvironment):
    """Jinja whose output is made of chunks that know their places."""

    code_generator_class: type[CodeGenerator]

    def literals(self, file: str, parts: tuple[tuple[int, bool, str], ...]) -> "_Chunk":
        """Return texts that are in a template: offset, whether as they are, and the text."""
        return _Chunk([self.piece(file, *part) for part in parts])

    def result(self, file: str, offset: int, text: str) -> "_Chunk":
        """Return the result of the expression at an offset."""
        return _Chunk([self.piece(file, offset, False, text)])

    def piece(self, file: str, offset: int, literal: bool, text: str) -> Piece:
        found = self.texts[file]
        if literal:
            return Piece(text, found.source, offset, offset + len(text), literal)
        start, end = found.tag(offset) or (offset, offset + 1)
        return Piece(text, found.source, start, end, literal)


class _Chunk(str):
    """A run of output with its pieces."""

    __slots__ = ("pieces",)
    pieces: list[Piece]

    def __new__(cls, pieces: list[Piece]) -> "_Chunk":
        chunk = super().__new__(cls, "".join(piece.text for piece in pieces))
        chunk.pieces = pieces
        return chunk


class _Literal(str):
    """A constant part of a template on its way into the code."""

    __slots__ = ("as_written", "offset")
    as_written: bool
    offset: int


class _TracingCode(Code):
    """Writes code that yields chunks."""

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        literal = _Literal(super()._output_child_to_const(node, frame, finalize))
        literal.offset = node.lineno - 1
        literal.as_written = isinstance(node, nodes.TemplateData)
        return literal

    def _output_const_repr(self, group: Any) -> str:
        parts = tuple((each.offset, each.as_written, str(each)) for each in group)
        return f"environment.literals({self.filename!r}, {parts!r})"

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write(f"environment.result({self.filename!r}, {node.lineno - 1}, ")
        super()._output_child_pre(node, frame, finalize)

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        super()._output_child_post(node, frame, finalize)
        self.write(")")


TracingEnvironment.code_generator_class = _TracingCode


def trace(
    environment: TracingEnvironment, template: Template, names: Mapping[str, object]
) -> tuple[Piece, ...]:
    """Run a template of the environment, and return its output in pieces."""
    assert template.filename is not None  # noqa: S101 - templates here are files
    pieces: list[Piece] = []
    run: Any = template.root_render_func(template.new_context(dict(names)))
    for chunk in run:
        if isinstance(chunk, _Chunk):
            pieces += chunk.pieces
        else:
            offset = template.get_corresponding_lineno(run.gi_frame.f_lineno) - 1
            pieces.append(environment.piece(template.filename, offset, False, chunk))
    return tuple(pieces)
