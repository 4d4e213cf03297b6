"""Templates of a project: their execution, and which part of them wrote what.

Jinja is imported when the first template runs.
"""

import os
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odfbuild.errors import ProjectErrors
from odfbuild.project.files import Home, inside
from odfbuild.project.template.include import include_from
from odfbuild.project.template.rendered import Piece, RenderedSource
from odfbuild.project.yaml import Include
from odfbuild.project.yaml.places import SourceText
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from jinja2 import Template

    from odfbuild.project.template.environment import Loader, TemplateEnvironment
    from odfbuild.project.template.trace import TracingEnvironment


_ENDING = ".j2"


@dataclass(slots=True)
class Templates:
    """The templates of one project or package.

    `names` are what all of them can read; `packages` are the folders that they may import from.
    """

    home: Home
    names: Mapping[str, object]
    packages: Mapping[str, Home]
    _environment: "TemplateEnvironment | None" = None
    _tracing: "TracingEnvironment | None" = None
    _compiled: "dict[str, Template | ProjectErrors]" = field(default_factory=dict)

    def render(
        self, source: SourceText, names: Mapping[str, object], instance: str | None
    ) -> RenderedSource:
        """Return the output of a template, with further names for it alone.

        Raises ProjectErrors with what is wrong with the template.
        """
        text = self._run(source, names, instance)
        trace = partial(self._trace, source, names)
        return RenderedSource(source.file, text, instance=instance, trace=trace)

    def include(self, holder: str, names: Mapping[str, object], instance: str | None) -> Include:
        """Return what takes in the files that a definition names, rendering those to render."""

        def rendered(name: str) -> SourceText:
            return self.render(self.home.take(name), names, instance)

        return include_from(self.home, holder, rendered)

    def _run(self, source: SourceText, names: Mapping[str, object], instance: str | None) -> str:
        from odfbuild.project.template.bounds import LimitError
        from odfbuild.project.template.environment import MAX_OUTPUT

        environment = self._environment or self._start()
        template = self._compile(source, environment)
        environment.steps = 0
        parts: list[str] = []
        size = 0
        try:
            for chunk in template.root_render_func(template.new_context(dict(names))):
                parts.append(chunk)
                size += len(chunk)
                if size > MAX_OUTPUT:
                    raise LimitError(f"more than {MAX_OUTPUT:,} characters of output")
        except ProjectErrors:
            raise
        except Exception as error:  # whatever an expression of the user's raises
            raise _problem(error, environment, source.file, instance) from None
        return "".join(parts)

    def _compile(self, source: SourceText, environment: "TemplateEnvironment") -> "Template":
        found = self._compiled.get(source.file)
        if found is None:
            try:
                found = _compile(environment, source)
            except Exception as error:  # Jinja's own, and those of constants
                found = _problem(error, environment, source.file, None)
            self._compiled[source.file] = found
        if isinstance(found, ProjectErrors):
            raise found
        return found

    def _trace(self, source: SourceText, names: Mapping[str, object]) -> tuple[Piece, ...]:
        """Run a template once more; nothing if it fails this time: functions may be anything."""
        from odfbuild.project.template.trace import TracingEnvironment, trace

        if self._tracing is None:
            self._tracing = TracingEnvironment(self._loader(), self.names)
        self._tracing.steps = 0
        try:
            return trace(self._tracing, _compile(self._tracing, source), names)
        except Exception:
            return ()

    def _start(self) -> "TemplateEnvironment":
        from odfbuild.project.template.environment import TemplateEnvironment

        self._environment = TemplateEnvironment(self._loader(), self.names)
        return self._environment

    def _loader(self) -> "Loader":
        from odfbuild.project.template.environment import Loader

        return Loader(self._find, self._importable)

    def _find(self, name: str) -> SourceText | None:
        """Return a file to import: a package's by its name in front, else one of the macros."""
        if not name.endswith(_ENDING) or inside(name) != name:
            return None
        first, _, rest = name.partition("/")
        if first in self.packages:
            home = self.packages[first]
            places = [f"{home.macros}/{rest}"]
        else:
            home = self.home
            places = [f"{home.macros}/{name}"]
            places += [name for folder in home.datasets if f"{name}/".startswith(f"{folder}/")]
        found = next((each for each in places if home.has(each)), None)
        return None if found is None else home.take(found)

    def _importable(self) -> list[str]:
        own = _template_names(self.home.root / self.home.macros)
        return own + [
            f"{package}/{each}"
            for package, home in self.packages.items()
            for each in _template_names(home.root / home.macros)
        ]


def _compile(environment: "TemplateEnvironment", source: SourceText) -> "Template":
    from jinja2 import Template

    code = environment.compile(environment.add(source), source.file, source.file)
    return Template.from_code(environment, code, environment.globals)


def _problem(
    error: Exception, environment: "TemplateEnvironment", file: str, instance: str | None
) -> ProjectErrors:
    from jinja2.exceptions import TemplateSyntaxError

    from odfbuild.project.template.errors import run_problem, syntax_problem

    found: Any = (
        syntax_problem(error, environment)
        if isinstance(error, TemplateSyntaxError)
        else run_problem(error, environment, file, instance)
    )
    return ProjectErrors([found])


def _template_names(folder: Path) -> list[str]:
    if folder.is_symlink():
        return []
    found = [
        (Path(path) / name).relative_to(folder).as_posix()
        for path, _, names in os.walk(folder)
        for name in names
        if name.endswith(_ENDING)
    ]
    return sorted(found)
