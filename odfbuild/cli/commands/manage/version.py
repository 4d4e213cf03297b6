"""odfbuild version: of the program, and of what it builds with."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping

from odfbuild import __version__
from odfbuild.cli import exits
from odfbuild.cli.arguments.options import TextFormat
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.project.config.engines import ENGINES

_ODF = "0.34.1"


def version(
    output: TextFormat = "text",
) -> int:
    """Print versions: odfbuild, Python, engine, specification."""
    found = _versions()
    if output == "json":
        sys.stdout.write(json.dumps({"format_version": "1.0", **found}, indent=2) + "\n")
    else:
        width = max(map(len, found))
        sys.stdout.write("".join(f"{name:<{width}}  {text}\n" for name, text in found.items()))
    return exits.DONE


def _versions() -> Mapping[str, str]:
    return {
        "odfbuild": __version__,
        "python": platform.python_version(),
        **{name: engine_version(name) or "not installed" for name in ENGINES},
        "odf": _ODF,
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
