"""New keys are what pycryptodome makes of the same seeds, which is not loaded for them."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from Crypto.PublicKey import ECC

from odfbuild.state.keys.new_key import SEED_BYTES, pem_text, public_key

_OF_RFC_8032 = {
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60": (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    ),
    "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb": (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    ),
    "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7": (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
    ),
    "f5e5767cf153319517630f226876b86c8160cc583bc013744c6bf255f5cc0ee5": (
        "278117fc144c72340f67d0f2316e8386ceffbf2b2428c9c51fef7c597f1d426e"
    ),
    "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42": (
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf"
    ),
}


@pytest.mark.parametrize(("seed", "public"), _OF_RFC_8032.items())
def test_public_keys_are_those_of_the_test_vectors(seed: str, public: str) -> None:
    assert public_key(bytes.fromhex(seed)).hex() == public


def test_keys_are_those_of_another_library() -> None:
    chance = random.Random(8032)
    seeds = [chance.randbytes(SEED_BYTES) for _ in range(200)]
    for seed in [bytes(SEED_BYTES), b"\xff" * SEED_BYTES, *seeds]:
        given: Any = seed
        theirs = ECC.construct(curve="Ed25519", seed=given)
        assert public_key(seed) == theirs.public_key().export_key(format="raw")
        assert pem_text(seed) == theirs.export_key(format="PEM")
        assert ECC.import_key(pem_text(seed)).seed == seed


_MAKE = """\
import sys
from pathlib import Path
from odfbuild.state.keys import KeyFolder
print(KeyFolder(Path(sys.argv[1])).new_dataset_key())
assert not any(name.startswith("Crypto") for name in sys.modules)
"""


def test_a_key_is_made_without_the_library_that_signs(tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / "keys"
    folder.parent.mkdir()
    command = [sys.executable, "-P", "-c", _MAKE, str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    (file,) = folder.iterdir()
    key = ECC.import_key(file.read_text())
    assert made.stdout.strip().endswith(key.public_key().export_key(format="raw").hex())
