"""Feed random statements of Spark's grammar to the checks of queries, and run what passes.

python -m tests.hostile.sql_door --statements 100000 [--seed 1]

What both the check of texts and that of plans let through is run, in a Java process that strace
watches from outside: it must start no program, open no file but Spark's own, and connect to nobody.
A secret in its environment and one in a file must appear in no row and no message.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odfbuild.errors import OdfBuildError
from odfbuild.executors.spark.admission import RefusedPlanError, admitted
from odfbuild.executors.spark.engine import _OF_INGEST, SparkEngine
from odfbuild.executors.spark.java import find_java
from odfbuild.executors.spark.jvm import spark_home
from odfbuild.executors.spark.settings import Size
from odfbuild.planner.sql.query import QueryStep, diagnostics, examine
from odfbuild.planner.sql.registry import ALLOWED, REFUSED
from tests.hostile import CANARY, CANARY_NAME
from tests.hostile.attacks import COMMANDS, PROGRAMS, READS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Statements", "Watched", "judged", "main"]

TABLE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "d": [0.5, None, 2.5],
        "s": ["a", "2024-01-02", '{"a": [1]}'],
        "b": [b"ab", None, b""],
        "l": [[1, 2], None, []],
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "r": [{"a": 1, "b": "x"}] * 3,
    }
)
_NAMES = sorted(name for name in ALLOWED | REFUSED.keys() if re.fullmatch(r"\w+", name))
_UNKNOWN = ["read_files", "http_get", "ai_query", "secret", "getenv", "load_file", "sys_exec"]
_STRINGS = [
    "a INT",
    "%Y",
    "yyyy-MM-dd",
    "$.a",
    "/a",
    "UTC",
    "<r><a>1</a></r>",
    "utf-8",
    "java.lang.System",
    "getenv",
    CANARY_NAME,
    f"${{env:{CANARY_NAME}}}",
    "{file}",
    "file://{file}",
    "http://127.0.0.1:9/x",
    '<!DOCTYPE r SYSTEM "file://{file}"><r>q</r>',
    '<!DOCTYPE r [<!ENTITY e SYSTEM "file://{file}">]><r>&e;</r>',
    '{"type":"struct","fields":[]}',
]
_OPTIONS = ["rowValidationXSDPath", "avroSchemaUrl", "path", "mode", "timestampFormat", "locale"]
_TYPES = ["INT", "STRING", "DATE", "TIMESTAMP", "BINARY", "DOUBLE", "BOOLEAN", "VARIANT"]


class Statements:
    """Random statements; `file` is a path that must not be read."""

    def __init__(self, seed: int, file: str) -> None:
        self._random = random.Random(seed)
        self._file = file

    def __iter__(self) -> Iterator[str]:
        while True:
            yield self._statement().replace("{file}", self._file).replace("{mark}", self._file)

    def _one(self, of: Sequence[str]) -> str:
        return self._random.choice(of)

    def _statement(self) -> str:
        drawn = self._random.random()
        if drawn < 0.03:
            return self._one(COMMANDS)
        if drawn < 0.06:
            return self._one([*PROGRAMS, *READS])
        return self._query(3)

    def _query(self, depth: int) -> str:
        values = ", ".join(
            f"{self._value(depth)} AS c{at}" for at in range(self._random.randint(1, 2))
        )
        text = f"SELECT {self._hint()}{values} FROM {self._relation(depth)}"
        drawn = self._random.random()
        if drawn < 0.2:
            text += f" WHERE {self._value(depth - 1)}"
        elif drawn < 0.3:
            text += f" GROUP BY {self._value(1)}"
        elif drawn < 0.35:
            text += f" ORDER BY {self._value(1)} LIMIT 2"
        elif drawn < 0.4:
            text += f" UNION ALL SELECT {self._value(1)} FROM t"
        elif drawn < 0.43:
            text = f"WITH q AS ({text}) SELECT * FROM q"
        elif drawn < 0.46:
            text += f" |> WHERE {self._value(1)}"
        return text

    def _hint(self) -> str:
        return "/*+ BROADCAST(t) */ " if self._random.random() < 0.03 else ""

    def _relation(self, depth: int) -> str:
        drawn = self._random.random()
        if depth <= 0 or drawn < 0.7:
            return "t"
        if drawn < 0.78:
            return f"({self._query(depth - 1)}) AS u"
        if drawn < 0.84:
            name = self._one([*_NAMES, *_UNKNOWN])
            return f"{name}({self._value(1)})"
        if drawn < 0.9:
            kind = self._one(
                ["csv", "text", "json", "parquet", "orc", "binaryFile", "avro", "jdbc", "delta"]
            )
            return f"{kind}.`{{file}}`"
        if drawn < 0.94:
            return f"t LATERAL VIEW {self._call(1)} AS e"
        if drawn < 0.97:
            return f"IDENTIFIER({self._value(1)})"
        return f"(SELECT TRANSFORM({self._value(1)}) USING 'touch {{file}}.x' AS (i) FROM t) AS u"

    def _value(self, depth: int) -> str:
        drawn = self._random.random()
        if depth <= 0 or drawn < 0.25:
            return self._one([*TABLE.column_names, "1", "0.5", "NULL", "TRUE", "DATE'2024-01-02'"])
        if drawn < 0.33:
            return "'" + self._one(_STRINGS).replace("'", "\\'") + "'"
        if drawn < 0.85:
            return self._call(depth)
        if drawn < 0.88:
            return f"CAST({self._value(depth - 1)} AS {self._one(_TYPES)})"
        if drawn < 0.91:
            sign = self._one(["+", "=", "<=>", "||", "AND"])
            return f"({self._value(depth - 1)} {sign} {self._value(depth - 1)})"
        if drawn < 0.93:
            return f"map('{self._one(_OPTIONS)}', {self._value(0)})"
        if drawn < 0.95:
            return f"(SELECT max({self._value(depth - 1)}) FROM t)"
        if drawn < 0.97:
            return f"CASE WHEN {self._value(depth - 1)} THEN {self._value(depth - 1)} END"
        return f"{self._call(depth)} OVER (PARTITION BY i)"

    def _call(self, depth: int) -> str:
        drawn = self._random.random()
        name = self._one(_NAMES)
        if drawn < 0.03:
            name = self._one(_UNKNOWN)
        elif drawn < 0.06:
            name = f"system.builtin.{name}"
        elif drawn < 0.08:
            name = f"IDENTIFIER('{name}')"
        count = self._random.choice([0, 1, 1, 1, 2, 2, 2, 3, 4])
        given = [self._value(depth - 1) for _ in range(count)]
        if self._random.random() < 0.05:
            given.append("e -> e")
        if self._random.random() < 0.06:
            given.append(f"map('{self._one(_OPTIONS)}', '{{file}}')")
        return f"{name}({', '.join(given)})"


def judged(session: "SparkSession", text: str) -> tuple[str, str]:
    """Return what came of a statement, in a word, and all that was said or given."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    facts = examine((QueryStep(None, text),), ("t",), ())
    found = diagnostics(facts, tuple(_OF_INGEST))
    try:
        frame = admitted(session, text)
    except RefusedPlanError as error:
        return ("refused by the plan alone" if not found else "refused by both"), str(error)
    except (PySparkException, Py4JError) as error:
        return "not understood", str(error)
    if found:
        return "refused by the text alone", ""
    try:
        rows = frame.limit(5).collect()
    except (PySparkException, Py4JError, ValueError, OverflowError, OdfBuildError) as error:
        return "ran, and failed", str(error)
    return "ran", repr(rows)


class Watched:
    """What strace saw of a process that nobody should see."""

    def __init__(self, allowed: Sequence[Path]) -> None:
        self._allowed = (*map(str, allowed), "/proc/", "/sys/", "/dev/", "/etc/localtime")
        self.found: list[str] = []

    def read(self, log: Path) -> None:
        """Look through what strace wrote: programs, files and connections."""
        for line in log.read_text("utf-8", "replace").splitlines():
            if "execve(" in line or "connect(" in line:
                self.found.append(line)
            path = re.search(r'open(?:at)?\([^"]*"([^"]*)"', line)
            if path and not self._is_allowed(path[1]):
                self.found.append(line)

    def _is_allowed(self, path: str) -> bool:
        own = path in {"/proc/self/environ"} or re.fullmatch(r"/proc/\d+/environ", path)
        return not own and path.startswith(self._allowed)


@contextmanager
def watching(pid: int, log: Path) -> Iterator[None]:
    """Let strace follow a process as long as the context lasts."""
    calls = "trace=execve,execveat,open,openat,connect"
    command = ["strace", "-f", "-q", "-e", calls, "-s", "400", "-o", str(log), "-p", str(pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield
    finally:
        time.sleep(1)
        tracer.terminate()
        tracer.wait()


def main() -> int:
    """Run so many statements; say what came of them, and fail for what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sql-door-") as name:
        folder = Path(name)
        file = folder / "secret.txt"
        file.write_text(CANARY, "utf-8")
        os.environ[CANARY_NAME] = CANARY
        with SparkEngine(folder / "jvm", cores=1, java_options=()) as engine:
            session = engine._sessions.session(Size.SMALL)
            return _run(engine, session, given.statements, given.seed, folder, file)


def _run(engine: SparkEngine, session: Any, count: int, seed: int, folder: Path, file: Path) -> int:
    session.createDataFrame(TABLE).createOrReplaceTempView("t")
    statements = iter(Statements(seed, str(file)))
    judged(session, "SELECT i AS a FROM t")
    jvm = engine._sessions._host.jvm  # type: ignore[union-attr]
    counted: Counter[str] = Counter()
    leaks: list[str] = []
    watched = Watched([folder / "jvm", spark_home(), find_java().home.resolve(), Path("/usr/lib")])
    log = folder / "strace.log"
    tracer = shutil.which("strace") is not None
    began = time.monotonic()
    with watching(jvm.process.pid, log) if tracer else _nothing():  # type: ignore[union-attr]
        for number in range(count):
            text = next(statements)
            came, said = judged(session, text)
            counted[came] += 1
            # a message may show the text itself, but never what the secret is
            if CANARY in said:
                leaks.append(f"{text}\n    {said[:300]}")
            if number % 1000 == 999:
                spent = time.monotonic() - began
                print(f"{number + 1} statements, {spent:.0f} s, {dict(counted)}", flush=True)
        _control(session, folder)
    if tracer:
        watched.read(log)
        seen = [each for each in watched.found if str(folder / "control") in each]
        watched.found = [each for each in watched.found if each not in seen]
        if not seen:
            watched.found.append("the control: what watches is blind")
    for each in (*leaks, *watched.found):
        print("FOUND", each)
    left = sorted(each.name for each in folder.iterdir())
    print(dict(counted), "watched" if tracer else "not watched: there is no strace", left)
    return (
        1
        if leaks or watched.found or set(left) - {"control", "jvm", "secret.txt", "strace.log"}
        else 0
    )


def _control(session: Any, folder: Path) -> None:
    """Make a file past the checks, to show that it is seen."""
    view = session.sparkContext._gateway.jvm
    view.java.io.File(str(folder / "control")).createNewFile()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


if __name__ == "__main__":
    sys.exit(main())
