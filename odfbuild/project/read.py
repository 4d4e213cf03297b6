"""Definitions of a project or package: plain files, templates, results of generators."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from odfbuild.errors import Diagnostic, Level, ProjectErrors, SourceSpan
from odfbuild.host.reading_session import reading_session
from odfbuild.odf.events import DatasetSnapshot
from odfbuild.odf.manifest import from_manifest
from odfbuild.odf.manifest.errors import ManifestErrors, Problem
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.planner.declared import Declared, normalize
from odfbuild.planner.plan.remote_inputs import RemoteInput
from odfbuild.project.checks import check_snapshot
from odfbuild.project.checks.findings import Findings
from odfbuild.project.checks.remote_inputs import NO_REFERENCES, References, take_references
from odfbuild.project.config.generators import GeneratorEntry
from odfbuild.project.files import Home, UnreadableError
from odfbuild.project.files.places import LazyPlaces
from odfbuild.project.fingerprint import project_files
from odfbuild.project.second_process import in_halves
from odfbuild.project.template.generator_items import Item, NameText, expand, name_of
from odfbuild.project.template.rendered import RenderedSource
from odfbuild.project.template.templates import Templates
from odfbuild.project.yaml import INCLUDE, Document, Include, read_source
from odfbuild.project.yaml.places import KeyPath, PlaceFinder, SourceText
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

# of these problems, the key of an entry is the place, not its value
_AT_KEYS = ("unknown-field", "missing-field", "given-twice")


@dataclass(slots=True)
class Manifests:
    """What one file declares and what is wrong in it; `hidden` when a document was unreadable.

    A definition that breaks a rule is declared all the same, so that others can refer to it.
    `wrong` has those of the errors that are of a dataset whose name is known.
    """

    declared: list[Declared] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    wrong: list[tuple[DatasetAlias, Diagnostic]] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    hidden: bool = False


def read_manifests(text: str, file: str) -> Manifests:
    """Return what the documents of a file declare; ProjectErrors if it is no YAML at all."""
    return read_definitions(SourceText(file, text))


def read_definitions(
    source: SourceText,
    include: Include | None = None,
    *,
    name: str | None = None,
    package: str | None = None,
    references: References = NO_REFERENCES,
) -> Manifests:
    """Return what the documents of a text declare; ProjectErrors if it is no YAML at all.

    Documents without content are passed over, with a note of a file that has no other: a definition
    may be commented out.  With `name`
    there is one document, and its dataset has that name, whether it says so or not.
    """
    manifests = Manifests()
    reading = _TextReader(source, package, manifests, references)
    documents = read_source(source, include)
    for document in documents:
        if document.value is not None:
            reading.document(document, name)
    if all(each.value is None for each in documents) and not isinstance(source, RenderedSource):
        manifests.notes.append(_empty(source))
    return manifests


def _empty(source: SourceText) -> Diagnostic:
    only = "holds only comments" if source.text.strip() else "is empty"
    return Diagnostic(
        code="empty-file",
        what=f"{source.file} {only}, so it declares no dataset",
        why="a file that was not saved, or was truncated, looks the same",
        fix="write the definition, or delete the file",
        span=SourceSpan(file=source.file, line=1),
        level=Level.NOTE,
    )


@dataclass(frozen=True, slots=True)
class _TextReader:
    """Reads the documents of one text, of a package if it is named."""

    source: SourceText
    package: str | None
    manifests: Manifests
    references: References

    def document(self, document: Document, name: str | None) -> None:
        findings = Findings(document.value, document.places)
        again = name is not None and _is_second(name, self.manifests, findings)
        if name is not None:
            _put_name(document, name, findings)
        remote = take_references(document.value, self.references, findings)
        snapshot = None if again else _snapshot(document, self.source, findings)
        if snapshot is None:
            self.manifests.hidden = True
        else:
            check_snapshot(snapshot, findings)
            self.manifests.declared.append(self._declare(snapshot, document, remote))
        alias = _written_name(document) if snapshot is None else snapshot.name
        if alias is not None:
            self.manifests.wrong += [(alias, each) for each in findings.errors]
        self.manifests.errors += findings.errors
        self.manifests.notes += findings.notes

    def _declare(
        self, snapshot: DatasetSnapshot, document: Document, remote: tuple[RemoteInput, ...]
    ) -> Declared:
        source = self.source
        return Declared(
            alias=snapshot.name,
            snapshot=normalize(snapshot),
            written=snapshot,
            file=source.file,
            document=document.index,
            places=document.places,
            instance=source.instance if isinstance(source, RenderedSource) else None,
            package=self.package,
            remote=remote,
        )


def _written_name(document: Document) -> DatasetAlias | None:
    """Return the name in a definition that cannot be read, if that can."""
    content = document.value.get("content") if isinstance(document.value, dict) else None
    name = content.get("name") if isinstance(content, dict) else None
    try:
        return DatasetAlias.parse(name) if isinstance(name, str) else None
    except InvalidNameError:
        return None


def _is_second(name: str, manifests: Manifests, findings: Findings) -> bool:
    """Refuse a second definition under the one name that a generator has."""
    if not manifests.declared:
        return False
    findings.refuse(
        "generated-name",
        (),
        f"a second definition, but the generator has a single name: '{name}'",
        "one name is one dataset",
        "remove `name` from the generator and write the names here, or write two templates",
    )
    return True


def _put_name(document: Document, name: str, findings: Findings) -> None:
    """Give a definition the name that its generator has for it."""
    content = document.value.get("content") if isinstance(document.value, dict) else None
    if not isinstance(content, dict):
        return
    written = content.get("name", name)
    content["name"] = name
    if written != name:
        findings.refuse(
            "generated-name",
            ("content", "name"),
            f"the dataset is named '{written}' here, but '{name}' by its generator",
            "one of the two names would be silently lost",
            "remove it here, or from the generator",
        )


def _snapshot(document: Document, source: SourceText, findings: Findings) -> DatasetSnapshot | None:
    try:
        _, _, decoded = from_manifest(document.value)
    except ManifestErrors as errors:
        _refuse(errors.problems, _legacy(document, source), source.file, findings)
        return None
    if isinstance(decoded, DatasetSnapshot):
        return decoded
    findings.refuse(
        "unknown-kind",
        ("kind",),
        "the manifest does not declare a dataset",
        "files of a project declare datasets; blocks and events are written by odfbuild apply",
        "write kind: DatasetSnapshot, or move the file out of the folder",
    )
    return None


def _legacy(document: Document, source: SourceText) -> Collection[KeyPath]:
    """Return what `upgrade` would rewrite: nothing in what a template makes."""
    from odfbuild.project.upgrade import legacy_paths

    return () if isinstance(source, RenderedSource) else legacy_paths(document)


def _refuse(
    problems: Sequence[Problem], old: Collection[KeyPath], file: str, findings: Findings
) -> None:
    """Add the problems of a manifest; where an older specification shows, `upgrade` is the fix."""
    way_out = f"odfbuild upgrade {file}"
    if () in old:
        findings.refuse(
            "legacy-manifest",
            (),
            "the manifest has the form of an older specification",
            "datasets are defined by `name`, `kind` and `metadata` (ODF 0.34.1, DatasetSnapshot)",
            way_out,
        )
        return
    for each in problems:
        above = each.code == "missing-field" and any(path[:-1] == each.path for path in old)
        fix = way_out if each.path in old or above else each.fix
        key = each.code in _AT_KEYS
        findings.refuse(each.code, each.path, each.what, each.why, fix, key=key)


_TEMPLATE = ".j2"
_ID = "did:odf:"
_MANY = 200  # files, from which on a second process helps


@dataclass(frozen=True, slots=True)
class _FilesPart:
    """What some of the files say."""

    found: list[Diagnostic]
    wrong: list[tuple[DatasetAlias, Diagnostic]]
    declared: list[Declared]
    notes: list[Diagnostic]
    hidden: bool


@dataclass(slots=True)
class Reading:
    """What was read so far; `hidden` when some file may declare datasets that cannot be seen.

    `wrong` has those of the errors that are of one dataset, by its name.  With `only`, of the files
    of the home these are read.
    """

    home: Home
    names: Mapping[str, object]
    packages: Mapping[str, Home] = field(default_factory=dict)
    only: Collection[str] | None = None
    references: References = NO_REFERENCES
    found: list[Diagnostic] = field(default_factory=list)
    wrong: list[tuple[DatasetAlias, Diagnostic]] = field(default_factory=list)
    declared: list[Declared] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    hidden: bool = False
    _templates: dict[str | None, Templates] = field(default_factory=dict)

    def read(self, generators: Sequence[GeneratorEntry]) -> None:
        """Read the files of the home, and what generators make of templates."""
        generated = {each.template for each in generators}
        files = self._files()
        self._plain_files([name for name in files if not name.lower().endswith(_TEMPLATE)])
        for name in files:
            if name.lower().endswith(_TEMPLATE) and name not in generated:
                self._alone(name)
        for generator in generators:
            self._generate(generator)

    def read_plain(self) -> None:
        """Read the files of the home that are no templates."""
        files = self._files()
        self._plain_files([name for name in files if not name.lower().endswith(_TEMPLATE)])

    def _files(self) -> list[str]:
        if self.only is not None:
            return sorted(self.only)
        return project_files(self.home.root, self.home.datasets)

    def _plain_files(self, names: Sequence[str]) -> None:
        for part in in_halves(names, self._part, pack=self._without_places, least=_MANY):
            self.found += part.found
            self.wrong += part.wrong
            self.declared += part.declared
            self.notes += part.notes
            self.hidden = self.hidden or part.hidden

    def _part(self, names: Sequence[str]) -> "_FilesPart":
        """Read some files; what is found leaves this reading as it was."""
        reading = Reading(self.home, self.names, self.packages, references=self.references)
        for name in names:
            reading._plain(name)
        return _FilesPart(
            reading.found, reading.wrong, reading.declared, reading.notes, reading.hidden
        )

    def _without_places(self, part: "_FilesPart") -> "_FilesPart":
        """Leave places out that can be found again, since few of them are ever asked for."""
        return replace(part, declared=[self._light(each) for each in part.declared])

    def _light(self, declared: Declared) -> Declared:
        places = declared.places
        if not isinstance(places, PlaceFinder) or INCLUDE in places.source.text:
            return declared
        again = LazyPlaces(self.home, declared.file, declared.document, declared.span())
        return replace(declared, places=again)

    def _plain(self, name: str) -> None:
        try:
            self._add(self._known_manifests(name, self.home.read(name)))
        except UnreadableError as error:
            self._refuse(error.at(SourceSpan(file=self.home.shown(name), line=1)))
        except ProjectErrors as errors:
            self._refuse(errors)

    def _known_manifests(self, name: str, source: SourceText) -> Manifests:
        """Return what a plain text declares, as an open session knows it of a round before."""
        session = reading_session()
        if session is None or INCLUDE in source.text or _ID in source.text:
            return self._read_plain(name, source)
        return session.made(
            (source.file, source.text, self.home.package),
            lambda: self._read_plain(name, source),
            keeps=_is_by_itself,
        )

    def _read_plain(self, name: str, source: SourceText) -> Manifests:
        return self._manifests(source, self._of(self.home).include(name, {}, None))

    def _alone(self, name: str) -> None:
        templates = self._of(self.home)
        try:
            source = templates.render(self.home.take(name), {}, None)
            self._take(source, templates.include(name, {}, None))
        except UnreadableError as error:
            self._refuse(error.at(SourceSpan(file=self.home.shown(name), line=1)))
        except ProjectErrors as errors:
            self._refuse(errors)

    def _generate(self, generator: GeneratorEntry) -> None:
        home, name = self._place(generator.template)
        try:
            items = expand(generator, lambda rows: _take_file(self.home, rows, generator, "from"))
            source = _take_file(home, name, generator, "template")
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
        self, item: Item, home: Home, name: str, source: SourceText, called: NameText | None
    ) -> None:
        """Read what a template makes of one item."""
        templates = self._of(home)
        given = None if called is None else self._item_name(called, item)
        rendered = templates.render(source, item.names, item.instance)
        self._take(rendered, templates.include(name, item.names, item.instance), given)

    def _item_name(self, called: NameText, item: Item) -> str:
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

    def _take(self, source: SourceText, include: Include, name: str | None = None) -> None:
        self._add(self._manifests(source, include, name))

    def _manifests(
        self, source: SourceText, include: Include, name: str | None = None
    ) -> Manifests:
        return read_definitions(
            source,
            include,
            name=name,
            package=self.home.package,
            references=self.references,
        )

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


def _is_by_itself(manifests: Manifests) -> bool:
    """Tell whether no repository has a say in what a text declares."""
    return not manifests.hidden and not any(each.remote for each in manifests.declared)


def _take_file(home: Home, name: str, generator: GeneratorEntry, key: str) -> SourceText:
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
    similar = [each for each in known if each.endswith(f".{suffix}")]
    return Diagnostic(
        code="no-file",
        what=f"there is no file '{home.shown(name)}'",
        why="a generator makes datasets from a template and a list",
        fix=did_you_mean(name[name.rfind("/") + 1 :], similar)
        or "correct the path, or add the file",
        span=span,
    )
