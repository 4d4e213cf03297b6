"""Load the worked cases: JSON files of tests/vectors, or of the folder ODFBUILD_VECTORS names."""

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["load"]


def load(name: str) -> dict[str, Any]:
    """Return one file of worked cases by its name without the suffix."""
    folder = Path(os.environ.get("ODFBUILD_VECTORS") or Path(__file__).parents[1] / "vectors")
    loaded: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return loaded
