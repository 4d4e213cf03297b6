"""Documents of jobs: what is written is read, and what is damaged is refused with its reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.contract.job import (
    JobAnswer,
    answer_of,
    read_answer,
    read_request,
    write_answer,
    write_request,
)
from odfbuild.executors.engine.objects.files import BadJobError, JobFile
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.messages import RawQueryResponseInternalError, RawQueryResponseSuccess
from tests.executors.engine.contract.job.jobs import raw_query

HASH = sha3_256(b"something")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(str(HASH)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def test_a_request_that_is_written_is_read(tmp_path: Path) -> None:
    document = raw_query(tmp_path)
    found = read_request(document)
    assert [each.path for each in found.files] == ["rows.parquet"]
    assert write_request(found) == document


@pytest.mark.parametrize(
    "value", [RawQueryResponseSuccess(7), RawQueryResponseInternalError("it fell over", "where")]
)
def test_an_answer_that_is_written_is_read(value: Any) -> None:
    answer = JobAnswer(
        request=HASH, engine="1.0", value=value, files=(JobFile("made.parquet", 5, HASH),)
    )
    document = write_answer(answer, "ExecuteRawQuery")
    assert read_answer(document, "ExecuteRawQuery", {"made.parquet"}) == answer
    with pytest.raises(BadJobError, match=r"has a file made\.parquet"):
        read_answer(document, "ExecuteRawQuery", {"other.parquet"})


@given(st.text(st.characters(exclude_categories=[])))
def test_an_answer_may_say_any_text(text: str) -> None:
    """A message repeats names of the query, also half of a character that JSON can escape."""
    value: Any = RawQueryResponseInternalError(f"{text}.\ud800.{text}", None)
    answer = JobAnswer(request=HASH, engine=None, value=value, files=())
    said: Any = read_answer(write_answer(answer, "ExecuteRawQuery"), "ExecuteRawQuery", ()).value
    assert json.dumps(said.message) == json.dumps(value.message)


def test_the_answer_has_the_name_of_its_request() -> None:
    assert answer_of("request.json") == "request.answer.json"
    assert answer_of("request") == "request.answer.json"


@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../rows.parquet", "files are next to the request"),
        ("/etc/passwd", "files are next to the request"),
        ("a/b", "files are next to the request"),
        (".hidden", "files are next to the request"),
        ("request.json", "files are next to the request"),
        ("a\0b", "files are next to the request"),
        ("other.parquet", "its files have no other.parquet"),
    ],
)
def test_only_files_beside_the_request_are_read(tmp_path: Path, path: str, said: str) -> None:
    document = json.loads(raw_query(tmp_path))
    document["request"]["inputDataPaths"] = [path]
    with pytest.raises(BadJobError) as raised:
        read_request(json.dumps(document).encode())
    assert said in f"{raised.value.what} {raised.value.why}"


@pytest.mark.parametrize("path", ["rows.parquet", "../made", "/made", "request.json", ""])
def test_files_are_written_beside_the_request_and_none_that_is_read(
    tmp_path: Path, path: str
) -> None:
    document = json.loads(raw_query(tmp_path))
    document["request"]["outputDataPath"] = path
    with pytest.raises(BadJobError):
        read_request(json.dumps(document).encode())


@pytest.mark.parametrize("limit", [0, -1, True, "60", None, float("inf"), float("nan"), 10**9, [1]])
def test_a_limit_is_a_number_of_seconds(tmp_path: Path, limit: object) -> None:
    document = json.loads(raw_query(tmp_path)) | {"limit": limit}
    with pytest.raises(BadJobError, match=r"its limit is|not JSON"):
        read_request(json.dumps(document).encode())
    document["limit"] = 0.5
    assert read_request(json.dumps(document).encode()).limit == 0.5
    del document["limit"]
    with pytest.raises(BadJobError, match="its keys differ"):
        read_request(json.dumps(document).encode())


@given(data=st.data())
def test_any_value_in_any_place_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    document: Any = json.loads(raw_query(tmp_path_factory.mktemp("job")))
    inner = document
    while True:
        key = data.draw(
            st.sampled_from(sorted(inner) if isinstance(inner, dict) else [*range(len(inner))])
        )
        deeper = isinstance(inner[key], dict | list) and inner[key] and data.draw(st.booleans())
        if not deeper:
            break
        inner = inner[key]
    inner[key] = data.draw(VALUES)
    try:
        read_request(json.dumps(document).encode())
    except OdfBuildError as error:
        assert all((each.what, each.why, each.fix) for each in error.diagnostics())


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    for read in (read_request, lambda data: read_answer(data, "ExecuteTransform", ())):
        with pytest.raises(OdfBuildError):
            read(data)


def test_a_document_nested_too_deeply_is_refused() -> None:
    with pytest.raises(BadJobError, match="not JSON"):
        read_request(b"[" * 100_000)


@pytest.mark.parametrize(
    ("shared", "name", "said"),
    [
        (True, "rows.parquet", "a shared file is named by its hash"),
        (True, str(sha3_256(b"another")), "a shared file is named by its hash"),
        (False, None, "it is true, or left out"),
        (1, None, "it is true, or left out"),
        (None, None, "it is true, or left out"),
    ],
)
def test_a_shared_file_has_the_name_of_its_hash(
    tmp_path: Path, shared: Any, name: str | None, said: str
) -> None:
    document = json.loads(raw_query(tmp_path))
    (file,) = document["files"]
    file |= {"shared": shared, "path": name or file["hash"]}
    document["request"]["inputDataPaths"] = [file["path"]]
    with pytest.raises(BadJobError) as caught:
        read_request(json.dumps(document).encode())
    assert said in caught.value.why
    file |= {"shared": True, "path": file["hash"]}
    document["request"]["inputDataPaths"] = [file["path"]]
    assert read_request(json.dumps(document).encode()).files[0].shared
