"""Feed random statements of Spark's grammar to the checks of queries, and run what passes.

python -m tests.hostile.sql_door --statements 100000 [--seed 1] [--from 0]

What both the check of texts and that of plans let through is run, in a Java process that strace
watches from outside: it must start no program, open no file but Spark's own, and connect to nobody.
A secret in its environment and one in a file must appear in no row and no message.

Statements are numbered, and each follows from the seed and its number.  They are judged in batches:
what strace wrote meanwhile is read after each, and a batch in which something was seen is run again
one by one, to name the statement.  A run that ended goes on with `--from`.
"""

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.spark.admission import RefusedPlanError, admitted
from odfbuild.executors.engine.spark.engine import _OF_INGEST, SparkEngine
from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.jvm.launch import spark_home
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.sql.analysis.facts import diagnostics, examine
from odfbuild.sql.spark_functions import ALLOWED, REFUSED
from odfbuild.sql.text.steps import QueryStep
from tests.hostile import CANARY, CANARY_NAME
from tests.hostile.attacks import COMMANDS, PROGRAMS, READS

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
_PLACES = re.compile(r"'[^'\\\\]*'|\b\d+(?:\.\d+)?\b|\b[a-z_0-9]+\(")
_OPTIONS = ["rowValidationXSDPath", "avroSchemaUrl", "path", "mode", "timestampFormat", "locale"]
_TYPES = ["INT", "STRING", "DATE", "TIMESTAMP", "BINARY", "DOUBLE", "BOOLEAN", "VARIANT"]


class Statements:
    """Random statements, each by its number; `file` is a path that must not be read.

    `shown` are expressions to compose them of, such as Spark's own examples of its functions.
    """

    def __init__(self, seed: int, file: str, shown: Sequence[str] = ()) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._file = file
        self._shown = shown

    def __iter__(self) -> Iterator[str]:
        return map(self.numbered, count())

    def numbered(self, number: int) -> str:
        """Return the statement of a number."""
        self._random.seed(f"{self._seed} {number}")
        return self._statement().replace("{file}", self._file).replace("{mark}", self._file)

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
        if depth <= 0 or drawn < 0.66:
            return "t"
        if drawn < 0.7:
            return f"VALUES ({self._value(depth - 1)}) AS u(i)"
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
        if self._shown and drawn < 0.4 * depth / 3:
            return self._changed(self._one(self._shown))
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

    def _changed(self, shown: str) -> str:
        """Return an example, often with another value or function in one place."""
        drawn = self._random.random()
        places = [] if drawn < 0.4 else list(_PLACES.finditer(shown))
        if not places:
            return shown
        place = self._random.choice(places)
        if place[0].endswith("("):
            name = self._one(_NAMES) if drawn < 0.6 else self._one(_UNKNOWN)
            return f"{shown[: place.start()]}{name}({shown[place.end() :]}"
        return f"{shown[: place.start()]}{self._value(drawn < 0.7)}{shown[place.end() :]}"

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


def examples(session: Any) -> list[str]:
    """Return the expressions that Spark shows as examples of its functions, admitted or not."""
    registry = session._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction()
    shown = (
        registry.lookupFunction(names.apply(at)).get().getExamples() for at in range(names.size())
    )
    found = {each for text in shown for each in _SHOWN.findall(text)}
    return sorted(each for each in found if not _QUERY.search(each))


_SHOWN = re.compile(r">\s*SELECT (\S[^;]*);\s*$", re.MULTILINE)
_QUERY = re.compile(r"(?i)\b(?:FROM|SELECT|AS)\b|,\s*$")


def judged(session: Any, text: str) -> tuple[str, str]:
    """Return what came of a statement, in a word, and all that was said or given."""
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
        return "ran", frame._jdf.showString(5, 0, False)
    except (PySparkException, Py4JError, OdfBuildError) as error:
        return "ran, and failed", str(error)


class Watched:
    """What strace saw of a process that nobody should see."""

    def __init__(self, log: Path, allowed: Sequence[Path]) -> None:
        self._log = log
        self._read = 0
        self._allowed = (*map(str, allowed), "/proc/", "/sys/", "/dev/", "/etc/localtime")

    def seen(self) -> list[str]:
        """Return what was seen since this was asked last: programs, files and connections."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            written = log.read()
        written = written[: written.rfind(b"\n") + 1]
        self._read += len(written)
        return [
            line for line in written.decode("utf-8", "replace").splitlines() if self._tells(line)
        ]

    def _tells(self, line: str) -> bool:
        if "execve(" in line or "execveat(" in line or "connect(" in line:
            return True
        path = re.search(r'open(?:at)?\([^"]*"([^"]*)"', line)
        return path is not None and not self._is_allowed(path[1])

    def _is_allowed(self, path: str) -> bool:
        own = path in {"/proc/self/environ"} or re.fullmatch(r"/proc/\d+/environ", path)
        return not own and path.startswith(self._allowed)


def watched_java(folder: Path, log: Path) -> Path:
    """Return a home of Java whose processes strace follows from their beginning."""
    java = find_java()
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    shutil.copy(java.home / "release", home)
    calls = "trace=execve,execveat,open,openat,connect"
    strace = f"strace -D -f -q --seccomp-bpf -A -e {calls} -e signal=none -s 400 -o {log}"
    program = home / "bin" / "java"
    program.write_text(f'#!/bin/sh\nexec {strace} {java.program} "$@"\n', "ascii")
    program.chmod(0o755)
    return home


def main() -> int:
    """Run so many statements; say what came of them, and fail for what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="NUMBER")
    parser.add_argument("--batch", type=int, default=1000)
    given = parser.parse_args()
    if shutil.which("strace") is None:
        print("there is no strace: nobody would see what a statement does")
        return 2
    captured.convert_exception = _converted
    with tempfile.TemporaryDirectory(prefix="sql-door-") as name:
        return _Run(Path(name), given.seed).all(given.first, given.statements, given.batch)


def _converted(thrown: Any) -> PySparkException:
    """Return what Java says in one call: to ask for all of it takes most of the time."""
    return PySparkException(thrown.toString())


class _Run:
    """Statements, and the Java that they run in; there is another one when it has ended."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        self._file = folder / "secret.txt"
        self._file.write_text(CANARY, "utf-8")
        real = find_java().home.resolve()
        self._log = folder / "strace.log"
        allowed = [folder / "jvm", spark_home(), real, Path("/usr/lib")]
        self._watched = Watched(self._log, allowed)
        os.environ[CANARY_NAME] = CANARY
        os.environ["JAVA_HOME"] = str(watched_java(folder, self._log))
        self._engine: SparkEngine | None = None
        self._session: Any = None
        self._deadline = _Deadline()
        self._counted: Counter[str] = Counter()
        self._found = 0

    def all(self, first: int, many: int, batch: int) -> int:
        """Judge statements in batches; return 1 if anything was seen."""
        self._start()
        self._control()
        began, last = time.monotonic(), first + many
        for start in range(first, last, batch):
            stop = min(start + batch, last)
            self._batch(start, stop)
            spent = time.monotonic() - began
            print(
                f"{stop} of {last} statements of seed {self._seed}, {spent:.0f} s, "
                f"{(stop - first) / spent:.1f} a second, found {self._found}: "
                f"{dict(sorted(self._counted.items()))}",
                flush=True,
            )
        self._control()
        self._stop()
        return 1 if self._found else 0

    def _batch(self, start: int, stop: int) -> None:
        for number in range(start, stop):
            self._counted[self._one(number)] += 1
        seen = self._seen()
        if seen:
            self._tell(f"statements {start} to {stop - 1}", seen)
            for number in range(start, stop):
                self._one(number)
                if again := self._seen():
                    self._tell(f"statement {number}: {self._statements.numbered(number)}", again)

    def _one(self, number: int) -> str:
        """Return what came of a statement, in a word."""
        text = self._statements.numbered(number)
        assert self._engine is not None
        try:
            with self._deadline.of(self._engine):
                came, said = judged(self._session, text)
        except Exception as error:
            self._tell(f"statement {number}: {text}", [f"internal: {error!r}"])
            came, said = "internal", ""
        # a message may show the text itself, but never what the secret is
        if any(each in said.lower() for each in _SECRETS):
            self._tell(f"statement {number}: {text}", [said[:300]])
        if self._ended():
            print(f"Java ended at statement {number}: {text}", flush=True)
            self._stop()
            self._start()
            return "ended Java"
        return came

    def _ended(self) -> bool:
        assert self._engine is not None
        host: Any = self._engine._sessions._host
        return host is None or host.gone or host.jvm.process.poll() is not None

    def _tell(self, where: str, what: Sequence[str]) -> None:
        self._found += len(what)
        for each in what:
            print("FOUND", each, "\n    in", where, flush=True)

    def _seen(self) -> list[str]:
        """Return what strace and the folder show, and was not there before."""
        left = {each.name for each in self._folder.iterdir()} - _THERE
        for name in left:
            shutil.move(self._folder / name, self._folder / "jvm" / f"left-{self._found}-{name}")
        return [*self._watched.seen(), *(f"the file {name}" for name in sorted(left))]

    def _control(self) -> None:
        """Make a file past the checks, to show that it is seen."""
        view = self._session.sparkContext._gateway.jvm
        view.java.io.File(str(self._folder / "control")).createNewFile()
        seen = [each for each in self._seen() if "control" not in each]
        if not list((self._folder / "jvm").glob("left-*-control")) or seen:
            self._tell("the control", seen or ["what watches is blind"])

    def _start(self) -> None:
        self._engine = SparkEngine(self._folder / "jvm", cores=1, java_options=())
        self._session = self._engine._sessions.session(StepSize.SMALL)
        self._session.createDataFrame(TABLE).createOrReplaceTempView("t")
        self._statements = Statements(self._seed, str(self._file), examples(self._session))
        judged(self._session, "SELECT i AS a FROM t")
        # Once, Spark makes the folder of its own empty catalog by `chmod`, and asks `getconf`.
        self._session._jsparkSession.sharedState().externalCatalog()
        view = self._session.sparkContext._gateway.jvm
        view.org.apache.spark.executor.ProcfsMetricsGetter.pTreeInfo()
        self._watched.seen()  # what Java and Spark open when they start

    def _stop(self) -> None:
        assert self._engine is not None
        with suppress(Exception):
            self._engine.close()


class _Deadline:
    """Ends Java where a statement takes too long, from another thread."""

    SECONDS = 60.0

    @contextmanager
    def of(self, engine: SparkEngine) -> Iterator[None]:
        host: Any = engine._sessions._host
        timer = threading.Timer(self.SECONDS, host.jvm.process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


_THERE = {"java", "jvm", "secret.txt", "strace.log"}
_SECRETS = [CANARY, CANARY.encode().hex(), CANARY.encode().hex(" "), CANARY[::-1]]

if __name__ == "__main__":
    sys.exit(main())
