"""odfbuild convert: every form into every other, and byte for byte where that can be."""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from odfbuild.odf.events import SetInfo
from odfbuild.odf.manifest import from_manifest, to_yaml
from odfbuild.odf.manifest.bytes import Manifested, to_bytes
from odfbuild.odf.wire.blocks import block_hash, decode_block, encode_block
from odfbuild.project.yaml import read_documents
from tests.support.cases import load
from tests.support.process.terminals import terminal
from tests.support.process.within import Within
from tests.support.projects import EXAMPLES, environment, odfbuild, shell
from tests.support.values.newer import as_newer, in_envelope

CASES: list[dict[str, Any]] = load("flatbuffers-blocks")["vectors"]
FORMS = ("yaml", "json", "fb")
BLOCK = bytes.fromhex(CASES[0]["expected"]["manifest_v2"]["hex"])
SNAPSHOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: a.b
  kind: Root
  metadata:
  - kind: SetInfo
    description: |
      two
      lines
    keywords:
    - 'no'
    - "\\e[2J"
    - grün
"""
EVENT = "kind: MetadataEvent\nversion: 1\ncontent:\n  kind: SetInfo\n  description: a\n"
TEXTS = {"DatasetSnapshot": SNAPSHOT, "MetadataEvent": EVENT}


@pytest.fixture
def here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(tmp_path, capsys, monkeypatch)


def put(at: Within, name: str, content: bytes | str) -> None:
    (at.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def walk(at: Within, forms: tuple[str, ...], *options: str) -> bytes:
    """Convert the file `0` from form to form; return the last one."""
    for number, form in enumerate(forms, start=1):
        (at.folder / str(number)).unlink(missing_ok=True)
        binary = b"\0" in (at.folder / str(number - 1)).read_bytes()
        told = options if binary else ()
        at.done("convert", str(number - 1), "-o", form, "--out", str(number), *told)
    return (at.folder / str(len(forms))).read_bytes()


# round trips


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_vector_blocks_come_out_byte_for_byte(
    here: Within, case: dict[str, Any], version: int
) -> None:
    expected = case["expected"][f"manifest_v{version}"]
    data = bytes.fromhex(expected["hex"])
    put(here, "0", data)
    assert walk(here, ("yaml", "json", "fb")) == data
    assert json.loads((here.folder / "2").read_text())["version"] == version


@pytest.mark.parametrize("forms", list(itertools.product(FORMS, repeat=3)), ids="-".join)
def test_a_block_goes_any_way_round(here: Within, forms: tuple[str, ...]) -> None:
    put(here, "0", BLOCK)
    walk(here, forms)
    here.done("convert", "3", "-o", "fb", "--out", "end")
    assert (here.folder / "end").read_bytes() == BLOCK


@pytest.mark.parametrize("kind", list(TEXTS))
@pytest.mark.parametrize("forms", list(itertools.product(FORMS, repeat=2)), ids="-".join)
def test_snapshots_and_events_go_any_way_round(
    here: Within, kind: str, forms: tuple[str, ...]
) -> None:
    (document,) = read_documents(TEXTS[kind], "0")
    told, version, value = from_manifest(document.value)
    put(here, "0", TEXTS[kind])
    walk(here, (*forms, "yaml"), "--kind", kind)
    assert (here.folder / "3").read_text() == to_yaml(told, value, version)
    walk(here, (*forms, "fb"), "--kind", kind)
    assert (here.folder / "3").read_bytes() == to_bytes(Manifested(kind, 1, value))


@pytest.mark.parametrize(
    "path",
    sorted(EXAMPLES.glob("*/datasets/**/*.yaml")),
    ids=lambda path: path.relative_to(EXAMPLES).as_posix(),
)
def test_the_examples_survive_bytes(here: Within, path: Path) -> None:
    (document,) = [each for each in read_documents(path.read_text(), "x") if each.value is not None]
    put(here, "0", path.read_bytes())
    walk(here, ("json", "fb", "yaml"), "--kind", "DatasetSnapshot")
    (after,) = read_documents((here.folder / "3").read_text(), "y")
    assert from_manifest(after.value) == from_manifest(document.value)


def test_an_escape_in_a_text_survives_and_never_reaches_a_terminal(here: Within) -> None:
    put(here, "0", SNAPSHOT)
    for form in ("yaml", "json"):
        text = here.done("convert", "0", "-o", form)
        assert "\x1b" not in text
        put(here, "1", text)
        again = here.done("convert", "1", "-o", "json")
        assert json.loads(again)["content"]["metadata"][0]["keywords"] == ["no", "\x1b[2J", "grün"]


# versions and other writers


def test_a_block_is_written_in_the_version_that_is_asked_for(here: Within) -> None:
    put(here, "2", BLOCK)
    done = here("convert", "2", "-o", "fb", "--manifest-version", "3", "--out", "3")
    expected = encode_block(decode_block(BLOCK), 3)
    assert (here.folder / "3").read_bytes() == expected
    assert done.code == 0
    assert "note[other-bytes]" in done.err
    assert str(block_hash(expected)) in done.err
    assert str(block_hash(BLOCK)) in done.err
    text = here.done("convert", "2", "--manifest-version", "3")
    assert text == here.done("convert", "3")
    assert "version: 3\n" in text


def test_bytes_that_would_come_out_otherwise_are_told_and_kept(here: Within) -> None:
    foreign = BLOCK + b"\0\0\0\0"
    put(here, "foreign", foreign)
    for form in ("yaml", "json"):
        done = here("convert", "foreign", "-o", form)
        assert done.code == 0
        assert "note[other-bytes]" in done.err
        assert done.out
    here.done("convert", "foreign", "-o", "fb", "--out", "copy")
    assert (here.folder / "copy").read_bytes() == foreign


def test_a_block_of_a_newer_version_is_shown_and_told(here: Within) -> None:
    newer = in_envelope(as_newer(decode_block(BLOCK), "MetadataEvent", 99))
    put(here, "newer", newer)
    done = here("convert", "newer")
    assert done.code == 0
    assert "kind: Unknown" in done.out
    assert "note[other-bytes]" in done.err
    here.done("convert", "newer", "-o", "fb", "--out", "copy")
    assert (here.folder / "copy").read_bytes() == newer
    refused = here("convert", "newer", "-o", "fb", "--manifest-version", "3", "--out", "3")
    assert (refused.code, "error[unsupported-variant]" in refused.err) == (1, True)
    assert not (here.folder / "3").exists()


# where it comes from and goes to


def test_it_reads_standard_input_and_writes_standard_output(here: Within) -> None:
    put(here, "block", BLOCK)
    line = (
        "odfbuild convert - < block | odfbuild convert - -o json | odfbuild convert - -o fb > end"
    )
    done = shell(line, here.folder)
    assert (done.code, done.err) == (0, "")
    assert (here.folder / "end").read_bytes() == BLOCK


def test_bytes_do_not_go_to_a_terminal(here: Within) -> None:
    put(here, "event", EVENT)
    program = [sys.executable, "-c", "from odfbuild.cli.main import main; main()"]
    with terminal([*program, "convert", "event", "-o", "fb"], here.folder, environment()) as shown:
        assert shown.end() == 64
        assert "--out FILE" in shown.text
        assert "\0" not in shown.said


def test_no_file_is_overwritten(here: Within) -> None:
    put(here, "event", EVENT)
    done = here("convert", "event", "--out", "event")
    assert (done.code, "error[already-there]" in done.err) == (1, True)
    assert (here.folder / "event").read_text() == EVENT


def test_what_cannot_be_written_leaves_no_file(here: Within) -> None:
    put(here, "event", "kind: MetadataEvent\nversion: 1\ncontent: {kind: SetInfo, no: 1}\n")
    assert here("convert", "event", "--out", "end").code == 1
    assert not (here.folder / "end").exists()


def test_no_project_and_no_heavy_module_is_needed(here: Within) -> None:
    put(here, "block", BLOCK)
    done = odfbuild("convert", "block", cwd=here.folder)
    assert done.code == 0
    assert "import" not in done.err


# mistakes


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        ("", "not-one-manifest", ""),
        ("# only a comment\n", "not-one-manifest", ""),
        (EVENT + "---\n" + EVENT, "not-one-manifest", ""),
        ("just text", "wrong-type", "file:1:1"),
        ("kind: MetadataEvent\nversion: 1\ncontent:\n  kind: Seed\n  no: 1\n", "", "file:5:3"),
        ("kind: MetadataEvent\nversion: 2\ncontent: {kind: SetInfo}\n", "unsupported-version", ""),
        ("kind: Dataset\nversion: 1\ncontent: {}\n", "unknown-kind", "file:1:7"),
        ('{"kind": "MetadataEvent",\n "kind": "MetadataEvent"}', "duplicate-key", "file:2"),
        ('{"kind": "MetadataEvent", "version": 1,\n "content": [}', "yaml-syntax", "file:2"),
        ("a: [b", "yaml-syntax", "file"),
        (b"\xff\xfea", "yaml-encoding", "file"),
        (b"\0\0\0\0", "unknown-content", ""),
        (BLOCK[:100], "", ""),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_told_with_its_place(
    here: Within, content: str | bytes, code: str, place: str
) -> None:
    put(here, "file", content)
    done = here("convert", "file")
    assert (done.code, done.out) == (1, "")
    assert f"error[{code}" in done.err
    assert place in done.err
    assert "fix: " in done.err


@pytest.mark.parametrize(
    "value",
    ['"\\ud800"', "[" * 5000 + "]" * 5000],
    ids=["half a pair", "deep"],
)
def test_json_that_is_no_value_of_ours_is_refused(here: Within, value: str) -> None:
    content = f'{{"kind": "SetInfo", "description": {value}}}'
    put(here, "file", f'{{"kind": "MetadataEvent", "version": 1, "content": {content}}}')
    for form in ("yaml", "json"):
        done = here("convert", "file", "-o", form)
        assert (done.code, done.out) == (1, "")
        assert "error[internal]" not in done.err


@pytest.mark.parametrize(
    "options",
    [
        ["--kind", "MetadataBlock"],
        ["--manifest-version", "2"],
        ["--kind", "Seed"],
        ["-o", "xml"],
        ["--manifest-version", "x"],
    ],
    ids=" ".join,
)
def test_options_that_do_not_fit_are_mistakes_of_usage(here: Within, options: list[str]) -> None:
    put(here, "event", EVENT)
    done = here("convert", "event", *options)
    assert (done.code, done.out) == (64, "")


def test_a_table_read_as_another_kind_is_refused_or_plainly_something_else(here: Within) -> None:
    event = to_bytes(Manifested("MetadataEvent", 1, SetInfo(description="a")))
    put(here, "event", event)
    done = here("convert", "event", "--kind", "DatasetSnapshot")
    assert done.code == 1
    assert "error[malformed-bytes]" in done.err


def test_a_file_too_large_for_a_manifest_is_not_read(here: Within) -> None:
    with (here.folder / "large").open("wb") as file:
        file.truncate(1 << 30)
    done = here("convert", "large")
    assert (done.code, "error[too-large]" in done.err) == (1, True)
