"""Published derivative definitions, in either form, if they are beside the repository."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from odfbuild.odf.chain.state import vocabulary
from odfbuild.odf.events import DatasetSnapshot, DatasetVocabulary, SetTransform, SetVocab
from odfbuild.project.read import read_manifests
from odfbuild.project.upgrade import upgrade
from odfbuild.sql.text.steps import QueryStep, steps_of
from tests.support.projects import REPOSITORY

__all__ = ["MANIFESTS", "Published", "published", "snapshots"]

_SHARED = Path(os.environ.get("ODFBUILD_MANIFESTS") or REPOSITORY.parent / "shared")
MANIFESTS = sorted(_SHARED.glob("manifests*/**/*.yaml"))


@dataclass(frozen=True, slots=True)
class Published:
    """A derivative: what it is written for, its steps and the names that it can read."""

    name: str
    engine: str
    steps: tuple[QueryStep, ...]
    inputs: tuple[str, ...]
    vocab: DatasetVocabulary


def snapshots() -> Iterator[DatasetSnapshot]:
    """Yield every published definition."""
    for path in MANIFESTS:
        for declared in read_manifests(upgrade(path.read_text("utf-8"), "a").text, "a").declared:
            yield declared.snapshot


def published() -> Iterator[Published]:
    """Yield the derivatives by name, each once."""
    found = {}
    for each in snapshots():
        events = each.metadata
        vocab = next((event for event in events if isinstance(event, SetVocab)), SetVocab())
        for event in events:
            if isinstance(event, SetTransform):
                found[str(each.name)] = Published(
                    str(each.name),
                    event.transform.engine,
                    steps_of(event.transform),
                    tuple(source.alias or str(source.dataset_ref) for source in event.inputs),
                    vocabulary(vocab),
                )
    yield from (found[name] for name in sorted(found))
