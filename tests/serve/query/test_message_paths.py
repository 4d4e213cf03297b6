"""Messages without paths, whatever the workspace is called."""

import pytest

from odfbuild.serve.query.message_paths import without_paths

ROOTS = ("/home/ana/shop/.odfbuild", "/srv/my data/o'brien (2)/ws", "/w", "/2031/04/ws")


@pytest.mark.holds("serving-origins")
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize(
    "text",
    [
        "{} is damaged",
        "a file is damaged: {}/data/f1620ab",
        "Object at location {}/data/f1620ab not found: os error 2",
        "file://{}/data/f1620ab",
        '["{}", "x"]',
        "two:{}/a,{}/b",
    ],
)
def test_no_part_of_a_path_is_left(root: str, text: str) -> None:
    found = without_paths(text.replace("{}", root), root)
    assert root not in found
    assert root.removeprefix("/") + "/" not in found
    assert "PATH" in found


def test_a_path_without_its_first_slash_is_one(root: str = "/home/ana/ws") -> None:
    text = "Object at location home/ana/ws/data/f1620ab not found"
    assert without_paths(text, root) == "Object at location PATH not found"


@pytest.mark.parametrize(
    "text",
    [
        "Cannot cast string '2031/04/01' to value of Date32 type",
        "ana/shop.orders has no column v",
        "a / b and a/b, at line 1",
        "Divide by zero error",
    ],
)
def test_other_texts_are_as_they_were(text: str) -> None:
    assert without_paths(text, "/home/ana/ws") == text
