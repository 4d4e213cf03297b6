"""The canonical layout: it is stable, says what the file said, and loses no comment."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, reject

from odfbuild.errors import ProjectErrors
from odfbuild.project.yaml import read_documents
from odfbuild.project.yaml.comments import comments_of
from odfbuild.project.yaml.format import UnformattableError, formatted, trimmed
from tests.support.projects import REPOSITORY
from tests.support.values.layouts import layouts, manifests

UNTIDY = """\


# yaml-language-server: $schema=x.json
# Orders of the shop.
version:   1
kind: DatasetSnapshot # a definition
content:

    kind: Root
    # its name
    name: 'shop.orders'


    metadata:
    # where it comes from
    - merge: { primaryKey: [order_id ,"day"], kind: Ledger }
      fetch:
            path: data/*.csv    # all files
            kind: FilesGlob
      # as it is
      read:
         kind: Csv
         schema:
         - order_id BIGINT
         # - later STRING
         header: true
      kind: SetPollingSource
    - kind: SetInfo
      description: >-
          Orders of
            the shop
      keywords: [ shop,
          orders ]   # two

# the end
"""
TIDY = """\
# yaml-language-server: $schema=x.json
# Orders of the shop.
kind: DatasetSnapshot # a definition
version: 1
content:
  # its name
  name: 'shop.orders'
  kind: Root

  metadata:
    # where it comes from
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: data/*.csv    # all files
      # as it is
      read:
        kind: Csv
        schema:
          - order_id BIGINT
        # - later STRING
        header: true
      merge: {kind: Ledger, primaryKey: [order_id, "day"]}
    - kind: SetInfo
      description: >-
        Orders of
          the shop
      keywords: [ shop,
          orders ]   # two

# the end
"""


def fmt(text: str) -> str:
    return formatted(text, "a.yaml")


def test_a_definition_is_laid_out_in_the_order_of_the_schema() -> None:
    assert fmt(UNTIDY) == TIDY


def test_what_is_laid_out_so_stays() -> None:
    assert fmt(TIDY) == TIDY


def texts_of(text: str) -> Counter[str]:
    return Counter(each.text for each in comments_of(text))


def values_of(text: str) -> str:
    return "\n".join(str(canonical(each.value)) for each in read_documents(text, "a.yaml"))


def canonical(value: object) -> object:
    """Return a value that tells nothing of the order of keys, and NaN from NaN."""
    if isinstance(value, dict):
        return sorted((key, repr(canonical(item))) for key, item in value.items())
    return [canonical(each) for each in value] if isinstance(value, list) else repr(value)


@given(layouts(manifests()))
def test_the_value_and_all_comments_stay_and_the_result_is_stable(text: str) -> None:
    try:
        before = values_of(text)
    except ProjectErrors:
        reject()
    once = fmt(text)
    assert values_of(once) == before
    assert texts_of(once) == texts_of(text.replace("\r\n", "\n"))
    assert fmt(once) == once
    assert once.endswith("\n")
    assert "\r" not in once


def test_line_ends_become_one() -> None:
    assert fmt("a: 1\r\nb: 'x\r\n  y'\r\n") == "a: 1\nb: 'x\n  y'\n"


def test_the_last_line_gets_an_end_and_no_text_changes_by_that() -> None:
    assert fmt("a: |\n  select 1") == "a: |-\n  select 1\n"
    assert fmt("a: |+\n  select 1\n\n") == "a: |+\n  select 1\n\n"


def test_keys_of_files_that_are_no_manifests_stay_in_order() -> None:
    assert fmt("name: x\nodfbuild: 1\n") == "name: x\nodfbuild: 1\n"


def test_keys_of_a_file_with_anchors_stay_in_order() -> None:
    text = "version: &v 1\nkind: DatasetSnapshot\ncontent:\n  name: *v\n"
    assert fmt(text) == text


def test_comments_move_with_what_they_stand_above() -> None:
    text = "kind: DatasetSnapshot\nversion: 1\ncontent:\n  # kind\n  kind: Root\n  name: a\n"
    assert fmt(text).endswith("content:\n  name: a\n  # kind\n  kind: Root\n")


def test_included_files_stay_included() -> None:
    text = "query:  !include   ../sql/x.sql # the query\n"
    assert fmt(text) == "query: !include ../sql/x.sql # the query\n"


def test_runs_of_blank_lines_become_one() -> None:
    assert fmt("\n\na: 1\n\n\n\n# b\n\n\nb: 2\n\n\n") == "a: 1\n\n# b\n\nb: 2\n"


def test_documents_stay_apart() -> None:
    assert fmt("# one\na: 1\n--- # two\n\nb: 2\n") == "# one\na: 1\n--- # two\nb: 2\n"


def test_a_file_of_comments_is_kept() -> None:
    assert fmt("# a: 1\n\n# b: 2\n") == "# a: 1\n\n# b: 2\n"
    assert fmt("\n\n") == ""


@pytest.mark.parametrize("text", ["%YAML 1.2\n---\na: 1\n", "? a\n: 1\n", "a: 1\n...\n"])
def test_what_is_too_unusual_is_left_alone(text: str) -> None:
    with pytest.raises(UnformattableError) as caught:
        fmt(text)
    assert caught.value.span is not None


def test_a_file_that_is_no_yaml_is_refused_with_its_place() -> None:
    with pytest.raises(ProjectErrors) as caught:
        fmt("a: 'b\n")
    assert str(caught.value.found[0].span) == "a.yaml:1:4"


def test_templates_are_only_trimmed() -> None:
    text = "a: {{ x }}  \r\n{% if y %}\t\n b:   2\n{% endif %}\n\n\n"
    assert trimmed(text) == "a: {{ x }}\n{% if y %}\n b:   2\n{% endif %}\n"
    assert trimmed("") == ""


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "project_template").rglob("*.yaml")), ids=lambda path: path.name
)
def test_what_a_new_project_begins_with_is_laid_out_so(path: Path) -> None:
    text = path.read_text("utf-8")
    assert fmt(text) == text
