"""Refusals of what a policy does not allow: what to write, and into which file."""

from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.host.permissions import POLICY_FORMAT, STRICT, StoreNotPermittedError


def test_a_policy_that_is_not_there_yet_is_shown_with_its_first_line() -> None:
    with pytest.raises(StoreNotPermittedError) as refused:
        STRICT.check_store("s3://bucket/place")
    assert POLICY_FORMAT in str(refused.value.fix)
    with pytest.raises(StoreNotPermittedError) as refused:
        replace(STRICT, file="mine.yaml", because="mine.yaml").check_store("s3://bucket/place")
    assert refused.value.fix is not None
    assert refused.value.fix.endswith('write in mine.yaml: stores: ["s3://bucket/place"]')


FITS = (
    ("s3://*", "s3://bucket/a/b", True),
    ("s3://*", "s3+https://h.example/bucket", False),
    ("*", "az+https://h.example/acme/lake", True),
    ("s3+https://h.example/*", "s3+https://h.example/bucket/a", True),
    ("s3+https://h.example/*", "s3+https://h.example", False),
    ("s3+https://*.example.org/lake/*", "s3+https://eu.example.org/lake/a", True),
    ("s3+https://*.example.org/lake/*", "s3+https://example.net/x.example.org/lake/a", False),
    ("s3+https://*.example.org/*", "s3+https://example.net/x.example.org/lake", False),
    ("s3+https://*/lake/*", "s3+https://example.net/x/lake/a", False),
    ("s3+https://h?example/*", "s3+https://h/example/a", False),
    ("s3+https://h[./]example/*", "s3+https://h/example/a", False),
    ("s3*://h.example/*", "s3+https://h.example/a", True),
    ("s3*h.example/*", "s3+https://net.example/h.example/a", False),
    ("*h.example/*", "s3+https://net.example/h.example/a", False),
    ("*://acme.blob.core.windows.net/*", "az+https://acme.blob.core.windows.net/lake", True),
    ("az+https://*.windows.net/*", "az+https://net.example/acme.windows.net/lake", False),
    ("s3://lake/*", "s3://lake/a/b/c", True),
    ("s3://lake/*", "s3://lake-of-others/a", False),
    ("s3://lake", "s3://lake/a", False),
    ("s3://lake*", "s3://lake-of-others/a", True),
)


@pytest.mark.holds("project-stores")
@pytest.mark.parametrize(("pattern", "url", "fits"), FITS)
def test_a_pattern_of_stores_takes_no_path_for_a_part_of_the_server(
    pattern: str, url: str, fits: bool
) -> None:
    permissions = replace(STRICT, stores=(pattern,))
    if fits:
        permissions.check_store(url)
        return
    with pytest.raises(StoreNotPermittedError):
        permissions.check_store(url)


PARTS = st.text("ab.*?[]-", max_size=6)


@pytest.mark.holds("project-stores")
@given(PARTS, PARTS, st.lists(st.text("ab.-", min_size=1, max_size=3), min_size=2, max_size=5))
def test_whatever_a_pattern_is_the_server_of_a_store_fits_that_of_the_pattern(
    server: str, path: str, names: list[str]
) -> None:
    permissions = replace(STRICT, stores=(f"s3+https://{server}/{path}",))
    with suppress(StoreNotPermittedError):
        permissions.check_store("s3+https://" + "/".join(names))
        assert fnmatchcase(names[0], server)
        assert fnmatchcase("/".join(names[1:]), path)


@pytest.mark.holds("project-azure", "project-google")
def test_a_store_is_named_by_its_server_and_not_by_a_pattern_of_several() -> None:
    url = "az+https://acme.blob.core.windows.net/lake/markets"
    for pattern in ("az+https://acme.blob.core.windows.net/*", url):
        assert replace(STRICT, stores=("s3://*", pattern)).names_store(url)
    for pattern in (
        "*",
        "az+https://*",
        "az*://acme.blob.core.windows.net/*",
        "az+https://acme.blob.core.windows.ne?/*",
        "az+https://acme.blob.core.windows.ne[t]/*",
        "az+https://acme.blob.core.windows.net/other/*",
    ):
        assert not replace(STRICT, stores=(pattern,)).names_store(url)
    place = "gs+http://127.0.0.1:4443/lake"
    assert replace(STRICT, stores=("gs+http://127.0.0.1:4443/*",)).names_store(place)
    assert not replace(STRICT, stores=("gs+http://127.0.0.1:*/*",)).names_store(place)
