"""Markers of sources with `cache: {kind: Forever}` that were processed, and are not asked again.

Processed means that its url, as it is written now, brought a commit, with rows or without: a url
that was changed is another source.  Files of a FilesGlob are read once each anyway, so there the
setting changes nothing.
"""

from odfbuild.odf.events import AddData, FetchStep, FetchStepUrl, SetPollingSource
from odfbuild.state.chain.dataset import Dataset


def is_cached_forever(dataset: Dataset | None, fetch: FetchStep) -> bool:
    """Say whether a source needs to be fetched never again.  Reads the chain only if asked to."""
    if dataset is None or not isinstance(fetch, FetchStepUrl) or fetch.cache is None:
        return False
    url: str | None = None
    for _, block in dataset.blocks():
        match block.event:
            case SetPollingSource(fetch=FetchStepUrl(url=declared)):
                url = declared
            case SetPollingSource():
                url = None
            case AddData(new_data=data, new_source_state=state):
                if url == fetch.url and (data is not None or state is not None):
                    return True
    return False
