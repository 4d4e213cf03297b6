"""Places of a plain file that is read again when one of them is asked for."""

from dataclasses import field

from odfbuild.errors import ProjectErrors, SourceSpan
from odfbuild.planner.declared import Declared, PathSpans, PathSteps
from odfbuild.project.files import Home, UnreadableError
from odfbuild.project.yaml import read_source
from odfbuild.project.yaml.places import PlaceFinder
from odfbuild.values import dataclass


@dataclass(slots=True)
class LazyPlaces:
    """The places of one document: where its name stands is known, the others are looked for.

    Only errors name them, so most are never asked for.  Should the file have changed meanwhile,
    the place of the name stands for all.
    """

    home: Home
    file: str
    document: int
    name: SourceSpan
    _places: PathSpans | None = field(default=None, compare=False, repr=False)

    def value(self, path: PathSteps) -> SourceSpan:
        if tuple(path) == ("content", "name"):
            return self.name
        found = self.places()
        return self.name if found is None else found.value(path)

    def key(self, path: PathSteps) -> SourceSpan:
        found = self.places()
        return self.name if found is None else found.key(path)

    def inside(self, path: PathSteps, text: str, offset: int, length: int = 1) -> SourceSpan:
        found = self.places()
        return self.name if found is None else found.inside(path, text, offset, length)

    def places(self) -> PlaceFinder | None:
        """Return the places as they are read now; None if there is no such document any more."""
        if self._places is None:
            self._places = self._read()
        return self._places if isinstance(self._places, PlaceFinder) else None

    def _read(self) -> PlaceFinder | None:
        try:
            source = self.home.read(self.file.removeprefix(self.home.prefix))
            documents = read_source(source)
        except (UnreadableError, ProjectErrors):
            return None
        found = (each.places for each in documents if each.index == self.document)
        return next(found, None)


def places_of(declared: Declared) -> PlaceFinder | None:
    """Return the places of a definition that was read from a file, None if they are gone."""
    places = declared.places
    if isinstance(places, LazyPlaces):
        return places.places()
    return places if isinstance(places, PlaceFinder) else None
