"""Templates in urls and headers."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.fetch.substitute import (
    TemplateError,
    substitute,
    substitute_url,
    variables,
)
from tests.support.cases import load

VECTORS = load("ingest-template")["cases"]
names = st.text("abcXYZ012_-", min_size=1, max_size=8)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_template_vector(case: dict[str, Any]) -> None:
    expect = case["expect"]
    if "value" in expect:
        assert substitute(case["template"], case["vars"]) == expect["value"]
        return
    with pytest.raises(TemplateError) as caught:
        substitute(case["template"], case["vars"])
    named = expect.get("template") or expect.get("pattern")
    kind = {"value not found": "no value", "invalid pattern": "invalid pattern"}[expect["error"]]
    assert f"'{named}'" in caught.value.what
    assert kind in caught.value.what


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("no template", "no template"),
        ("${{ 'a' }}", "a"),
        ("${{'  padded  '}}", "padded"),
        ("${{ -1.50 }}", "-1.50"),
        ("${{ env.A-B_1 }}", "dash"),
        ("${{ '' || 'never' }}", ""),
        ("$ {{ env.A }} ${ env.A }", "$ {{ env.A }} ${ env.A }"),
    ],
)
def test_what_stands_for_what(template: str, value: str) -> None:
    assert substitute(template, {"A-B_1": "dash"}) == value


@pytest.mark.parametrize(
    "token",
    ["", "env.", "env.a b", "env.ä", "HOME", "'open", '"x"', "1.", "+1", "env.A |", "\u0661"],
)
def test_anything_else_is_refused_by_name(token: str) -> None:
    with pytest.raises(TemplateError, match="invalid pattern") as caught:
        substitute(f"x${{{{ {token} }}}}", {"A": "secret"})
    assert f"'{token.strip()}'" in caught.value.what


def test_an_empty_value_is_a_value() -> None:
    assert substitute("[${{ env.A || 'b' }}]", {"A": ""}) == "[]"


@given(names, st.text(max_size=30))
def test_a_value_is_put_in_once_whatever_it_holds(name: str, value: str) -> None:
    assert substitute(f"<${{{{ env.{name} }}}}>", {name: value}) == f"<{value}>"


def test_a_value_cannot_read_another_variable() -> None:
    env = {"A": "${{ env.SECRET }}", "SECRET": "s3cret"}
    assert substitute("${{ env.A }}", env) == "${{ env.SECRET }}"


def test_the_message_names_the_variable_and_no_value() -> None:
    with pytest.raises(TemplateError) as caught:
        substitute("${{ env.A }}:${{ env.B || env.C }}", {"A": "s3cret"})
    error = caught.value
    assert error.what == "no value for the template 'env.B || env.C'"
    assert error.fix.startswith("set B or C in the environment")
    assert "s3cret" not in error.what + error.why + error.fix


def test_variables_lists_names_once_and_in_order() -> None:
    assert variables("${{ env.B || env.A }} ${{ 'x' }} ${{ env.B }}") == ("B", "A")


@pytest.mark.parametrize(
    ("url", "value", "filled"),
    [
        ("https://u:${{ env.A }}@h/x", "p/w@evil.org:80#?", "https://u:p%2Fw%40evil.org%3A80%23%3F@h/x"),
        ("ftp://${{ env.A || 'a/b@c' }}@h/x", "ä b", "ftp://ä%20b@h/x"),
        ("https://u:${{ env.A }}@h/x", "p%40ss", "https://u:p%40ss@h/x"),
        ("${{ env.A }}", "https://u:p@h/x", "https://u:p@h/x"),
        ("https://${{ env.A }}/x@y", "h:8080", "https://h:8080/x@y"),
        ("https://h/${{ env.A }}?q=@", "a/b?c=@d", "https://h/a/b?c=@d?q=@"),
        ("file:${{ env.A }}", "x/y.csv", "file:x/y.csv"),
    ],
)  # fmt: skip
def test_a_password_cannot_change_the_host_and_all_else_is_put_in_as_it_is(
    url: str, value: str, filled: str
) -> None:
    assert substitute_url(url, {"A": value}) == filled


@given(value=st.text(max_size=20))
def test_whatever_a_password_holds_the_host_stays(value: str) -> None:
    filled = substitute_url("https://u:${{ env.A }}@host.example:81/x?y", {"A": value})
    assert urlsplit(filled).netloc.rpartition("@")[2] == "host.example:81"
    assert (urlsplit(filled).path, urlsplit(filled).query) == ("/x", "y")
