"""Steps of derivatives that changed nothing: `cache/empty-steps/<dataset id>` in the workspace.

Such a step leaves no block (the chain rules forbid it), so its interval stays open and the next one
takes it again.  Until a head moves it would change nothing again, and no plan has it.  A cache.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from odfbuild import __version__
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.files.checksum import read_document, write_document

EMPTY_STEPS: Final = "empty-steps"


def keep_empty_step(
    root: Path, dataset: DatasetId, heads: Mapping[DatasetId, Multihash], engine: str
) -> None:
    """Remember that a step changed nothing; `heads` are those of the dataset and its inputs."""
    path = root / "cache" / EMPTY_STEPS / dataset.multibase
    write_document(path, [_version(engine), _plain(heads)])


def recall_empty_steps(
    root: Path, heads: Mapping[DatasetId, Multihash], engines: Mapping[DatasetId, str]
) -> frozenset[DatasetId]:
    """Return the datasets whose next step changes nothing, as no head has moved since.

    `engines` has the version of the engine of each derivative.
    """
    folder = root / "cache" / EMPTY_STEPS
    try:
        there = {path.name for path in folder.iterdir()}
    except OSError:
        return frozenset()
    plain = _plain(heads)
    found = set()
    for dataset, engine in engines.items() if there else ():
        name = dataset.multibase
        if name not in there:
            continue
        with suppress(ValueError, TypeError, AttributeError):
            known, before = read_document(folder / name)
            if known == _version(engine) and before.items() <= plain.items():
                found.add(dataset)
    return frozenset(found)


def _plain(heads: Mapping[DatasetId, Multihash]) -> dict[str, str]:
    return {str(id): str(head) for id, head in heads.items()}


def _version(engine: str) -> str:
    return f"{__version__} {engine}"
