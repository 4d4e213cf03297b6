"""Python functions for templates: the modules of the macros folder, where a project enables them.

They are the project's own code and run unconfined; what they return has to be plain values.
"""

from collections.abc import Callable
from datetime import date
from functools import update_wrapper
from types import ModuleType
from typing import Any

from jinja2.exceptions import TemplateRuntimeError

from odfbuild.project.template.names import TemplateNames, UnprintableError, plain
from odfbuild.project.yaml.places import SourceText


class PythonError(Exception):
    """A function, or its module, failed with an error of its own."""

    def __init__(self, called: str, file: str, error: Exception) -> None:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        super().__init__(f"{type(error).__name__}: {said}")
        self.called = called
        self.file = file
        self.line = _line_in(file, error)


def functions(name: str, source: SourceText) -> TemplateNames:
    """Return the public functions of a module, which runs for that; PythonError if it fails."""
    module = ModuleType(name)
    try:
        code = compile(source.text, source.file, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - the project asks for it by `macros: python`
    except Exception as error:  # whatever the project's own code raises
        raise PythonError(f"py.{name}", source.file, error) from error
    found = {
        each: _guard(f"py.{name}.{each}", source.file, value)
        for each, value in vars(module).items()
        if _is_offered(each, value, name)
    }
    return TemplateNames(f"py.{name}", found)


def _is_offered(name: str, value: object, module: str) -> bool:
    own = getattr(value, "__module__", None) == module
    return callable(value) and not isinstance(value, type) and own and not name.startswith("_")


def _guard(called: str, file: str, function: Callable[..., Any]) -> Callable[..., object]:
    def run(*args: Any, **kwargs: Any) -> object:
        try:
            return plain(_without_dates(function(*args, **kwargs)))
        except TemplateRuntimeError:
            raise
        except UnprintableError as error:
            wrong = TypeError(f"it returned a {error}, which has no form in YAML")
            raise PythonError(called, file, wrong) from None
        except Exception as error:  # whatever the project's own code raises
            raise PythonError(called, file, error) from error

    return update_wrapper(run, function)


def _without_dates(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _line_in(file: str, error: Exception) -> int | None:
    """Return the last line of a file that an error went through."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == file else None
    place = error.__traceback__
    while place is not None:
        if place.tb_frame.f_code.co_filename == file:
            line = place.tb_lineno
        place = place.tb_next
    return line
