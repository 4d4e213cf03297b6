"""odfbuild key: whose keys are here, taking them elsewhere, and that none is given away."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.keys import KeyFolder, SealedKeyError
from odfbuild.state.keys.sealed import OpenKey, SealedKey, WrongPassphraseError, key_text
from odfbuild.state.workspace import Workspace
from tests.support.process.inside import lay_out
from tests.support.process.terminals import terminal
from tests.support.process.within import Within
from tests.support.projects import environment, odfbuild

SECRET = {"ODFBUILD_KEY_PASSPHRASE": "open sesame"}
PROGRAM = (sys.executable, "-c", "from odfbuild.cli.main import main; main()")


@pytest.fixture
def here(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(project, capsys, monkeypatch)


@pytest.fixture
def there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    """Return a project whose workspace has nothing in it."""
    return Within(lay_out(tmp_path / "there", {}), capsys, monkeypatch)


def keys(at: Within) -> KeyFolder:
    return Workspace(at.folder / ".odfbuild").keys


def id_of(at: Within, name: str = "src") -> DatasetId:
    return Workspace(at.folder / ".odfbuild").names()[DatasetAlias.parse(name)]


def seed_of(at: Within) -> bytes:
    key = keys(at).export(id_of(at))
    assert isinstance(key, OpenKey)
    return key.seed


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# list


def test_keys_are_listed_with_their_datasets(here: Within) -> None:
    listed = here.done("key", "list")
    for name in ("src", "out"):
        (line,) = [line for line in listed.splitlines() if line.startswith(f"{name} ")]
        assert line.split() == [
            name, "open", "0600", str(id_of(here, name)), id_of(here, name).did_key(),
        ]  # fmt: skip
    assert listed.splitlines()[-1] == "2 keys"


def test_the_list_can_be_read_by_programs(here: Within) -> None:
    listed = json.loads(here.done("key", "list", "-o", "json"))
    assert {each["dataset"]: each["id"] for each in listed} == {
        name: str(id_of(here, name)) for name in ("src", "out")
    }
    assert {(each["sealed"], each["mode"], each["private"]) for each in listed} == {
        (False, "0600", True)
    }


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o610])
def test_a_key_that_others_can_use_is_warned_of(here: Within, mode: int) -> None:
    path = here.folder / ".odfbuild" / "keys" / f"{id_of(here).multibase}.pem"
    path.chmod(mode)
    done = here("key", "list")
    assert done.code == 0
    assert f"{mode:04o} (!)" in done.out
    assert "warning[unsafe-key]" in done.err
    assert f"fix: chmod 600 {path}" in done.err


def test_a_workspace_without_keys_has_none(there: Within) -> None:
    assert there.done("key", "list").splitlines()[-1] == "0 keys"
    assert json.loads(there.done("key", "list", "-o", "json")) == []


def test_datasets_without_a_key_are_counted(here: Within) -> None:
    (here.folder / ".odfbuild" / "keys" / f"{id_of(here).multibase}.pem").unlink()
    assert here.done("key", "list").splitlines()[-1] == "1 key; 1 dataset without one"


def test_other_files_in_the_folder_are_no_keys(here: Within) -> None:
    (here.folder / ".odfbuild" / "keys" / ".pending-1").write_text("")
    (here.folder / ".odfbuild" / "keys" / "notes.txt").write_text("")
    assert here.done("key", "list").splitlines()[-1] == "2 keys"


# export and import


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_an_exported_key_is_for_its_owner_alone(here: Within, mask: int) -> None:
    before = os.umask(mask)
    try:
        here.done("key", "export", "src", "src.key.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((here.folder / "src.key.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("seal", [False, True])
def test_a_key_goes_from_one_workspace_to_another(here: Within, there: Within, seal: bool) -> None:
    out = str(there.folder / "key.json")
    here.done("key", "export", "SRC", out, *(["--seal"] if seal else []), **SECRET)
    told = there.done("key", "import", out, **SECRET)
    assert told == f"the key of {id_of(here)} is stored, {'sealed' if seal else 'open'}\n"
    kept = keys(there).export(id_of(here))
    assert isinstance(kept, SealedKey) is seal
    signed = keys(there).load(id_of(here), "open sesame").sign(b"head")
    assert signed == keys(here).load(id_of(here)).sign(b"head")
    listed = json.loads(there.done("key", "list", "-o", "json"))
    assert [(each["sealed"], each["mode"], each["dataset"]) for each in listed] == [
        (seal, "0600", None)
    ]


def test_a_sealed_key_stays_so_and_needs_its_passphrase(here: Within, there: Within) -> None:
    out = str(there.folder / "key.json")
    here.done("key", "export", "src", out, "--seal", **SECRET)
    there.done("key", "import", out, **SECRET)
    dataset = id_of(here)
    with pytest.raises(SealedKeyError):
        keys(there).load(dataset)
    with pytest.raises(WrongPassphraseError):
        keys(there).load(dataset, "other")
    there.done("key", "export", str(dataset), "again.json")  # it has no name there
    assert (there.folder / "again.json").read_bytes() == Path(out).read_bytes()
    refused = there("key", "export", str(dataset), "more.json", "--seal", **SECRET)
    assert (refused.code, "error[already-sealed]" in refused.err) == (1, True)


def test_nothing_that_is_printed_or_sealed_holds_the_seed(here: Within, there: Within) -> None:
    seed = seed_of(here)
    out = there.folder / "key.json"
    told = [
        here("key", "export", "src", str(out), "--seal", **SECRET),
        here("key", "list"),
        there("key", "import", str(out), **SECRET),
        here("key", "export", "src", str(out)),
        there("key", "import", str(out), ODFBUILD_KEY_PASSPHRASE="wrong"),
    ]
    text = "".join(each.out + each.err for each in told) + out.read_text()
    for secret in (seed.hex(), json.loads(key_text(OpenKey(id_of(here), seed)))["seed"]):
        assert secret not in text
    assert "open sesame" not in text


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_no_file_is_overwritten(here: Within, kind: str) -> None:
    out = here.folder / "key.json"
    match kind:
        case "file":
            out.write_text("mine")
        case "folder":
            out.mkdir()
        case _:
            out.symlink_to("nowhere")
    done = here("key", "export", "src", "key.json", "--seal")  # it is not asked for a passphrase
    assert (done.code, "error[already-there]" in done.err) == (1, True)
    assert not (here.folder / "nowhere").exists()
    assert not out.is_file() or out.read_text() == "mine"


def test_a_dataset_that_is_not_there_is_answered_with_the_nearest(here: Within) -> None:
    done = here("key", "export", "srcc", "key.json")
    assert done.code == 1
    assert "did you mean 'src'?" in done.err
    assert not (here.folder / "key.json").exists()


def test_a_dataset_without_its_key_has_none_to_export(here: Within) -> None:
    done = here("key", "export", str(DatasetId(b"\x01" * 32)), "key.json")
    assert (done.code, "error[missing-key]" in done.err) == (1, True)


def test_importing_a_key_again_changes_nothing(here: Within) -> None:
    here.done("key", "export", "src", "sealed.json", "--seal", **SECRET)
    before = files(here.folder / ".odfbuild" / "keys")
    told = here.done("key", "import", "sealed.json", **SECRET)
    assert told == f"the key of {id_of(here)} is here already; nothing was changed\n"
    assert files(here.folder / ".odfbuild" / "keys") == before


def test_the_wrong_passphrase_imports_nothing(here: Within, there: Within) -> None:
    out = str(there.folder / "key.json")
    here.done("key", "export", "src", out, "--seal", **SECRET)
    done = there("key", "import", out, ODFBUILD_KEY_PASSPHRASE="open sesame!")
    assert (done.code, "error[wrong-passphrase]" in done.err) == (1, True)
    assert not (there.folder / ".odfbuild" / "keys").exists()


def test_a_key_that_says_it_is_anothers_is_not_imported(here: Within, there: Within) -> None:
    here.done("key", "export", "src", str(there.folder / "key.json"))
    form = json.loads((there.folder / "key.json").read_text())
    form["did"] = str(id_of(here, "out"))
    (there.folder / "key.json").write_text(json.dumps(form))
    done = there("key", "import", "key.json")
    assert (done.code, "error[invalid-key-file]" in done.err) == (1, True)
    assert not (there.folder / ".odfbuild" / "keys").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\x00\x01", b"x" * 1_000_000, b"{" * 10_000],
    ids=["empty", "object", "binary", "long", "deep"],
)
def test_what_is_no_key_is_not_imported(there: Within, content: bytes) -> None:
    (there.folder / "key.json").write_bytes(content)
    done = there("key", "import", "key.json", **SECRET)
    assert done.code == 1
    assert "error[" in done.err
    assert "fix:" in done.err
    assert not (there.folder / ".odfbuild" / "keys").exists()


def test_a_file_that_is_not_there_is_named(there: Within) -> None:
    done = there("key", "import", "nowhere.json")
    assert done.code == 1
    assert "nowhere.json" in done.err


def test_an_open_key_that_others_could_read_is_warned_of(here: Within, there: Within) -> None:
    here.done("key", "export", "src", str(there.folder / "key.json"))
    (there.folder / "key.json").chmod(0o644)
    done = there("key", "import", "key.json")
    assert done.code == 0
    assert "warning[unsafe-key]: key.json has mode 0644" in done.err
    assert keys(there).has(id_of(here))


# passphrases


def test_without_anybody_to_ask_a_passphrase_has_to_be_given(here: Within) -> None:
    done = odfbuild("key", "export", "src", "key.json", "--seal", cwd=here.folder)
    assert done.code == 64
    assert "ODFBUILD_KEY_PASSPHRASE" in done.err
    assert not (here.folder / "key.json").exists()


@pytest.mark.parametrize("line", [b"open sesame\n", b"open sesame", b"open sesame\r\nmore\n"])
def test_a_passphrase_may_come_from_a_descriptor(here: Within, line: bytes) -> None:
    (here.folder / "secret").write_bytes(line)
    descriptor = os.open(here.folder / "secret", os.O_RDONLY)
    try:
        here.done("key", "export", "src", "key.json", "--seal", "--passphrase-fd", str(descriptor))
    finally:
        os.close(descriptor)
    done = here("key", "import", "key.json", **SECRET)
    assert done.code == 0


def test_a_descriptor_that_is_not_open_is_refused(here: Within) -> None:
    done = here("key", "export", "src", "key.json", "--seal", "--passphrase-fd", "987")
    assert (done.code, "descriptor 987" in done.err) == (64, True)


@pytest.mark.parametrize("secret", ["", "x" * 5000, "\udcff"], ids=["empty", "long", "not text"])
def test_what_is_no_passphrase_is_refused(here: Within, secret: str) -> None:
    done = here("key", "export", "src", "key.json", "--seal", ODFBUILD_KEY_PASSPHRASE=secret)
    assert done.code == 64
    assert not (here.folder / "key.json").exists()


def test_a_passphrase_is_asked_for_twice_and_not_shown(here: Within) -> None:
    command = [*PROGRAM, "key", "export", "src", "key.json", "--seal"]
    with terminal(command, here.folder, environment()) as asked:
        asked.expect("Passphrase to seal the key of src: ")
        asked.type("open sesame\n")
        asked.expect("Repeat it: ")
        asked.type("open sesame\n")
        assert asked.end() == 0
        assert "open sesame" not in asked.text
    assert here("key", "import", "key.json", **SECRET).code == 0


def test_a_slip_in_the_passphrase_seals_nothing(here: Within) -> None:
    command = [*PROGRAM, "key", "export", "src", "key.json", "--seal"]
    with terminal(command, here.folder, environment()) as asked:
        asked.expect("Passphrase to seal the key of src: ")
        asked.type("open sesame\n")
        asked.expect("Repeat it: ")
        asked.type("open sesam\n")
        assert asked.end() == 64
    assert not (here.folder / "key.json").exists()
