"""The JSON Schema of odfbuild.yaml: it takes what is right, and refuses what it can tell wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from odfbuild.errors import ProjectErrors
from odfbuild.project.config.project_file import parse_config
from odfbuild.project.yaml import read_documents
from tests.project.config.settings import GOOD
from tests.support.projects import REPOSITORY

BAD = sorted((Path(__file__).parent / "bad_settings").glob("*.yaml"))
SCHEMA: dict[str, Any] = json.loads(
    (REPOSITORY / "schemas" / "project.schema.json").read_text("utf-8")
)
# what only a program can tell: what other entries say, what is on disk, what a selector means
BEYOND = frozenset(
    {
        "accept-twice",
        "default-target-unknown",
        "defaults-ask-for-neighbours",
        "defaults-ask-for-state",
        "defaults-name-no-selector",
        "defaults-selector-broken",
        "env-is-secret",
        "folder-missing",
        "generate-items-without-key",
        "moved-in-a-circle",
        "moved-twice",
        "no-default-target",
        "repository-witness-wrong",
        "selector-broken",
        "selectors-in-a-circle",
        "spark-server-ipv6-wrong",
        "spark-server-port-wrong",
        "spark-server-token-capitals",
        "spark-server-memory",
        "variable-default-not-in-enum",
    }
)


def documents(text: str) -> list[Any]:
    try:
        return [each.value for each in read_documents(text, "odfbuild.yaml")]
    except ProjectErrors:
        return []


def valid(value: Any) -> bool:
    """Tell whether settings are valid; editors that know draft 7 only must say the same."""
    now = Draft202012Validator(SCHEMA).is_valid(value)
    assert Draft7Validator({**SCHEMA, "$schema": None}).is_valid(value) == now
    return bool(now)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_good_settings_are_valid(text: str) -> None:
    parse_config(text, default_name="x")
    (settings,) = documents(text)
    assert valid(settings)


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(
    "setting",
    [
        "engine: {{spark: {{wait: {}30s}}}}",
        "engines: {{flink: {{address: '127.0.0.1:2884', limit: {}2 hours}}}}",
        "engines: {{flink: {{command: [submit, '{{request}}'], limit: {}PT1H}}}}",
        "defaults: {{'*': {{watermark_lag: {}1d}}}}",
        "defaults: {{'*': {{watermark: now - {}1 day}}}}",
    ],
)
def test_a_length_of_time_is_not_negative(setting: str, sign: str) -> None:
    text = f"odfbuild: 1\n{setting.format(sign)}\n"
    (settings,) = documents(text)
    assert valid(settings) == (not sign)
    if not sign:
        parse_config(text, default_name="x")
        return
    with pytest.raises(ProjectErrors, match=r"not a (length of )?time") as refused:
        parse_config(text, default_name="x")
    (found,) = refused.value.found
    assert (found.code, found.span is not None, bool(found.fix)) == ("config", True, True)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.stem)
def test_bad_settings_are_invalid_where_a_schema_can_tell(case: Path) -> None:
    found = documents(case.read_text("utf-8"))
    accepted = len(found) == 1 and valid(found[0])
    assert accepted == (case.stem in BEYOND)
