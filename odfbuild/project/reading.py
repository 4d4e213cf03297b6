"""Read all definitions of a project or package: plain files, templates, what generators make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.planner.declared import Declared
from odfbuild.planner.names import did_you_mean
from odfbuild.project.fingerprint import project_files
from odfbuild.project.found_again import FoundAgain
from odfbuild.project.generate import Item, NameText, expand, name_of
from odfbuild.project.generators import Generator
from odfbuild.project.halves import in_halves
from odfbuild.project.manifests import Manifests, read_definitions
from odfbuild.project.places import Places, Source
from odfbuild.project.templates import Templates
from odfbuild.project.texts import Home, UnreadableError
from odfbuild.project.yaml import Include

__all__ = ["Reading"]

_TEMPLATE = ".j2"
_MANY = 200  # files, from which on a second process helps


@dataclass(frozen=True, slots=True)
class _Part:
    """What some of the files say."""

    found: list[Diagnostic]
    wrong: list[tuple[DatasetAlias, Diagnostic]]
    declared: list[Declared]
    notes: list[Diagnostic]
    hidden: bool


@dataclass(slots=True)
class Reading:
    """What was read so far; `hidden` when some file may declare datasets that cannot be seen.

    `wrong` has those of the errors that are of one dataset, by its name.
    """

    home: Home
    names: Mapping[str, object]
    packages: Mapping[str, Home] = field(default_factory=dict)
    found: list[Diagnostic] = field(default_factory=list)
    wrong: list[tuple[DatasetAlias, Diagnostic]] = field(default_factory=list)
    declared: list[Declared] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    hidden: bool = False
    _templates: dict[str | None, Templates] = field(default_factory=dict)

    def read(self, generators: Sequence[Generator]) -> None:
        """Read the files of the home, and what generators make of templates."""
        generated = {each.template for each in generators}
        files = project_files(self.home.root, self.home.datasets)
        self._plain_files([name for name in files if not name.endswith(_TEMPLATE)])
        for name in files:
            if name.endswith(_TEMPLATE) and name not in generated:
                self._alone(name)
        for generator in generators:
            self._generate(generator)

    def read_plain(self) -> None:
        """Read the files of the home that are no templates."""
        files = project_files(self.home.root, self.home.datasets)
        self._plain_files([name for name in files if not name.endswith(_TEMPLATE)])

    def _plain_files(self, names: Sequence[str]) -> None:
        for part in in_halves(names, self._part, pack=self._packed, least=_MANY):
            self.found += part.found
            self.wrong += part.wrong
            self.declared += part.declared
            self.notes += part.notes
            self.hidden = self.hidden or part.hidden

    def _part(self, names: Sequence[str]) -> "_Part":
        """Read some files; what is found leaves this reading as it was."""
        reading = Reading(self.home, self.names, self.packages)
        for name in names:
            reading._plain(name)
        return _Part(reading.found, reading.wrong, reading.declared, reading.notes, reading.hidden)

    def _packed(self, part: "_Part") -> "_Part":
        """Leave places out that can be found again, since few of them are ever asked for."""
        return replace(part, declared=[self._light(each) for each in part.declared])

    def _light(self, declared: Declared) -> Declared:
        places = declared.places
        if not isinstance(places, Places) or "!include" in places.source.text:
            return declared
        again = FoundAgain(self.home, declared.file, declared.document, declared.span())
        return replace(declared, places=again)

    def _plain(self, name: str) -> None:
        include = self._of(self.home).include(name, {}, None)
        try:
            self._take(self.home.read(name), include)
        except UnreadableError as error:
            self._refuse(error.at(SourceSpan(file=self.home.shown(name), line=1)))
        except ProjectErrors as errors:
            self._refuse(errors)

    def _alone(self, name: str) -> None:
        templates = self._of(self.home)
        try:
            source = templates.render(self.home.take(name), {}, None)
            self._take(source, templates.include(name, {}, None))
        except UnreadableError as error:
            self._refuse(error.at(SourceSpan(file=self.home.shown(name), line=1)))
        except ProjectErrors as errors:
            self._refuse(errors)

    def _generate(self, generator: Generator) -> None:
        home, name = self._place(generator.template)
        try:
            items = expand(generator, lambda rows: _taken(self.home, rows, generator, "from"))
            source = _taken(home, name, generator, "template")
        except ProjectErrors as errors:
            self._refuse(errors)
            return
        called = name_of(generator)
        for item in items:
            try:
                self._item(item, home, name, source, called)
            except ProjectErrors as errors:
                self._refuse(errors)

    def _item(
        self, item: Item, home: Home, name: str, source: Source, called: NameText | None
    ) -> None:
        """Read what a template makes of one item."""
        templates = self._of(home)
        given = None if called is None else self._called(called, item)
        rendered = templates.render(source, item.names, item.instance)
        self._take(rendered, templates.include(name, item.names, item.instance), given)

    def _called(self, called: NameText, item: Item) -> str:
        """Return the name that a generator gives to an item; ProjectErrors if it is none."""
        source = self._of(self.home).render(called, item.names, item.instance)
        try:
            return str(DatasetAlias.parse(source.text))
        except InvalidNameError as error:
            span = source.span(0, max(1, len(source.text)))
            wrong = Diagnostic(
                code="generated-name", what=error.what, why=error.why, fix=error.fix, span=span
            )
            raise ProjectErrors([wrong]) from None

    def _take(self, source: Source, include: Include, name: str | None = None) -> None:
        self._add(read_definitions(source, include, name=name, package=self.home.package))

    def _add(self, manifests: Manifests) -> None:
        self.declared += manifests.declared
        self.found += manifests.errors
        self.wrong += manifests.wrong
        self.notes += manifests.notes
        self.hidden = self.hidden or manifests.hidden

    def _refuse(self, errors: ProjectErrors) -> None:
        self.found += errors.found
        self.hidden = True

    def _place(self, template: str) -> tuple[Home, str]:
        """Return where the template of a generator is: in a package if that is named in front."""
        first, _, rest = template.partition("/")
        home = self.packages.get(first)
        return (self.home, template) if home is None else (home, rest)

    def _of(self, home: Home) -> Templates:
        if home.package not in self._templates:
            self._templates[home.package] = Templates(home, self.names, self.packages)
        return self._templates[home.package]


def _taken(home: Home, name: str, generator: Generator, key: str) -> Source:
    """Return a file that a generator names; ProjectErrors at that place if it cannot be read."""
    span = generator.at(key)
    if not home.has(name):
        raise ProjectErrors([_not_there(home, name, span)])
    try:
        return home.take(name)
    except UnreadableError as error:
        raise error.at(span) from None


def _not_there(home: Home, name: str, span: SourceSpan) -> Diagnostic:
    beside = (home.root / name).parent
    files = (each for each in beside.iterdir() if each.is_file()) if beside.is_dir() else ()
    known = sorted(each.name for each in files)
    suffix = name[name.rfind("/") + 1 :].partition(".")[2]
    near = [each for each in known if each.endswith(f".{suffix}")]
    return Diagnostic(
        code="no-file",
        what=f"there is no file '{home.shown(name)}'",
        why="a generator makes datasets of one template and what it lists",
        fix=did_you_mean(name[name.rfind("/") + 1 :], near) or "correct the path, or add the file",
        span=span,
    )
