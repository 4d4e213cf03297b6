"""Make the Python classes, the FlatBuffers schema and the JSON Schemas from schemas/odf.yaml.

python schemas/generate.py            write what changed
python schemas/generate.py --check    write nothing; exit code 1 if something would change
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from generator.fbs import fbs_text
from generator.jsonschema import json_texts
from generator.model import load
from generator.python import layout_text, module_text

_ROOT = Path(__file__).resolve().parent.parent


def texts() -> Mapping[Path, str]:
    """Return every generated file and its text."""
    model = load((_ROOT / "schemas" / "odf.yaml").read_text("utf-8"))
    code = _ROOT / "odfbuild" / "odf"
    folder = _ROOT / "schemas"
    schemas = json_texts(model).items()
    return {
        folder / "odf.fbs": fbs_text(model),
        **{folder / "json" / f"{name}.schema.json": text for name, text in schemas},
        code / "events.py": module_text(model, "events"),
        code / "messages.py": module_text(model, "messages"),
        code / "wire" / "layout.py": layout_text(model),
    }


def main(arguments: list[str]) -> int:
    """Write or check; return the exit code."""
    stale = {path: text for path, text in texts().items() if _differs(path, text)}
    for path in stale:
        sys.stdout.write(f"{path.relative_to(_ROOT)}\n")
    if "--check" in arguments:
        return 1 if stale else 0
    for path, text in stale.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text("utf-8") != text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
