"""Refusals of what a policy does not allow: what to write, and into which file."""

from dataclasses import replace

import pytest

from odfbuild.host.permissions import POLICY_FORMAT, STRICT, StoreNotPermittedError


def test_a_policy_that_is_not_there_yet_is_shown_with_its_first_line() -> None:
    with pytest.raises(StoreNotPermittedError) as refused:
        STRICT.check_store("s3://bucket/place")
    assert POLICY_FORMAT in str(refused.value.fix)
    with pytest.raises(StoreNotPermittedError) as refused:
        replace(STRICT, file="mine.yaml", because="mine.yaml").check_store("s3://bucket/place")
    assert refused.value.fix is not None
    assert refused.value.fix.endswith('write in mine.yaml: stores: ["s3://bucket/place"]')
