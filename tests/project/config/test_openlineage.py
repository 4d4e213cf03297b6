"""Where events of runs go: the setting, and the variables that stand for it."""

import pytest

from odfbuild.project.config.openlineage import Endpoint, OpenLineageSettings, endpoint_of
from odfbuild.project.config.project_file import parse_config
from tests.project.config.settings import FULL

SET = OpenLineageSettings(url="https://one.example/", token_env="LINEAGE_TOKEN")


def test_nothing_is_sent_by_default() -> None:
    telling = parse_config("odfbuild: 1\n", default_name="x").openlineage
    assert endpoint_of(telling, {"OPENLINEAGE_API_KEY": "k"}) is None


def test_the_setting_names_server_path_and_variable() -> None:
    telling = parse_config(FULL, default_name="x").openlineage
    assert telling.namespace == "markets-prod"
    assert endpoint_of(telling, {"LINEAGE_TOKEN": "t"}) == Endpoint(
        "http://lineage.example.org:5000/base/api/v2/lineage", "t"
    )


def test_the_path_is_the_usual_one_by_default() -> None:
    assert endpoint_of(SET, {}) == Endpoint("https://one.example/api/v1/lineage", None)


def test_variables_stand_for_the_setting_and_tokens_never_change_servers() -> None:
    env = {"OPENLINEAGE_URL": "https://two.example", "LINEAGE_TOKEN": "for-one"}
    assert endpoint_of(SET, env) == Endpoint("https://two.example/api/v1/lineage", None)
    env |= {"OPENLINEAGE_ENDPOINT": "/in", "OPENLINEAGE_API_KEY": "for-two"}
    assert endpoint_of(SET, env) == Endpoint("https://two.example/in", "for-two")
    only_key = {"OPENLINEAGE_API_KEY": "for-two", "LINEAGE_TOKEN": "for-one"}
    assert endpoint_of(SET, only_key) == Endpoint("https://one.example/api/v1/lineage", "for-one")


@pytest.mark.parametrize("word", ["true", "True", "1"])
def test_a_variable_stops_the_sending(word: str) -> None:
    env = {"OPENLINEAGE_URL": "https://two.example", "OPENLINEAGE_DISABLED": word}
    assert endpoint_of(SET, env) is None


def test_a_token_is_not_printed() -> None:
    assert "s3cr3t" not in repr(Endpoint("https://one.example/in", "s3cr3t"))
