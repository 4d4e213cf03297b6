"""Which types Spark's functions and operators take, asked of its analyser.

`python -m tests.sql.spark_types [NAME...]` writes the table of odfbuild/sql/argument_types.py, or
what it says of some names.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random
from textwrap import wrap
from typing import Any

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.sql import arities
from odfbuild.sql.argument_types import ACCEPTED
from odfbuild.sql.arities import ARITIES
from odfbuild.sql.text.tree_values import FORMS

__all__ = ["KINDS", "OPERATORS", "VIEW", "Analyser"]

KINDS: Mapping[str, tuple[str, ...]] = {
    "b": ("BOOLEAN",),
    "y": ("TINYINT",),
    "s": ("SMALLINT",),
    "i": ("INT",),
    "l": ("BIGINT",),
    "f": ("FLOAT",),
    "d": ("DOUBLE",),
    "c": ("DECIMAL(12,2)",),
    "t": ("STRING",),
    "x": ("BINARY",),
    "D": ("DATE",),
    "T": ("TIMESTAMP",),
    "N": ("TIMESTAMP_NTZ",),
    "A": ("ARRAY<INT>", "ARRAY<STRING>", "ARRAY<STRUCT<p: STRING, q: INT>>", "ARRAY<ARRAY<INT>>"),
    "M": ("MAP<STRING, INT>", "MAP<INT, STRING>"),
    "S": ("STRUCT<p: INT>", "STRUCT<p: STRING, q: DATE>"),
}
"""The letter of a kind of types, and types of it: a kind is refused if all of them are."""
CONSTANTS = {
    "b": ("true",),
    "y": ("1Y",),
    "s": ("1S",),
    "i": ("1",),
    "l": ("1L",),
    "d": ("1D",),
    "c": ("1.5BD",),
    "q": ("'1'", "'a'"),
}
"""The same as constants, of which Spark takes more; `q` is a constant text."""
VIEW = {f"{letter}{n}": kind for letter, kinds in KINDS.items() for n, kind in enumerate(kinds)}

OPERATORS = {
    **{op: f"{{}} {op} {{}}" for op in ("+", "-", "*", "/", "%", "div", "&", "|", "^", "||")},
    **{op: f"{{}} {op} {{}}" for op in ("=", "<", "<=>", "and", "or", "like", "rlike")},
    "in": "{} in ({})",
    "case": "case when b0 then {} else {} end",
    "element": "{}[{}]",
    "neg": "- {}",
    "~": "~ {}",
    "not": "not {}",
    "condition": "case when {} then 1 end",
    **{
        f"cast:{letter}": f"cast({{}} as {kinds[0]})"
        for letter, kinds in KINDS.items()
        if letter not in "AMS"
    },
}
"""Forms of operators, by the names that they have in the table."""
_TYPED = """
    UNEXPECTED_INPUT_TYPE BINARY_OP_DIFF_TYPES BINARY_OP_WRONG_TYPE DATA_DIFF_TYPES
    BINARY_ARRAY_DIFF_TYPES ARRAY_FUNCTION_DIFF_TYPES INVALID_ORDERING_TYPE MAP_CONCAT_DIFF_TYPES
    MAP_FUNCTION_DIFF_TYPES MAP_ZIP_WITH_DIFF_TYPES UNSUPPORTED_INPUT_TYPE
    CAST_WITHOUT_SUGGESTION CAST_WITH_CONF_SUGGESTION CAST_WITH_FUNC_SUGGESTION
"""
_MISMATCHES = {f"DATATYPE_MISMATCH.{each}" for each in _TYPED.split()}
_MISMATCHES |= {"INVALID_EXTRACT_BASE_FIELD_TYPE", "UNEXPECTED_INPUT_TYPE"}
_NAMES_LEFT_OUT = """
    tuple_ vector_ st_ variant time_ to_time try_parse try_variant schema_of from_ parse_json
    counter_diff is_variant
"""
_LEFT_OUT = tuple(_NAMES_LEFT_OUT.split())
"""Beginnings of names of functions whose arguments are not asked for."""
_SPECIAL = {"between", "struct", "window_time", "session_window", "window", "assert_true"}
_SPECIAL |= {"raise_error", "collate", "extract", "date_part", "datepart", "filter", "exists"}
_SPECIAL |= {"forall", "map_filter", "transform_keys", "transform_values", "zip_with", "stack"}
_SPECIAL |= {"map_zip_with", "aggregate", "reduce", "and", "or", "not", "div", "grouping"}
_SPECIAL |= {"nvl2", "mode"}  # of any types that go together
_SPECIAL |= {"cume_dist", "row_number", "json_tuple", "date_add", "dateadd", "datediff"}
_SPECIAL |= {"date_diff", "any", "every", "some", "lag", "lead", "nth_value", "ntile"}
_SPECIAL |= set(FORMS.values()) - {"array"}  # the parser may put arguments in another order
_BY_ITEMS = {"array_append", "array_contains", "array_position", "array_prepend", "array_remove"}
_BY_ITEMS |= {"element_at", "try_element_at", "element", "map_contains_key"}
"""Functions whose second argument is of the type of items or keys, of which there are any."""
_GROUPED = 7  # arguments up to which functions are asked for


class Analyser:
    """Asks Spark whether it takes an expression over a table with a column of each type."""

    def __init__(self, engine: SparkEngine) -> None:
        engine._sessions.start(0)
        session = engine._sessions.session(StepSize.SMALL)
        columns = ", ".join(f"{name} {kind}" for name, kind in VIEW.items())
        session.createDataFrame([], columns).createOrReplaceTempView("a")
        self._sql = session.sql
        self._state: Any = session._jsparkSession.sessionState()

    def refusal(self, query: str) -> str:
        """Return the condition with which Spark refuses a query, empty if it takes it."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            self._sql(query)
        except PySparkException as error:
            return str(error.getCondition())
        except Py4JJavaError as error:  # of some types that are not enabled
            return str(error.java_exception.getClass().getName())
        return ""

    def mismatches(self, exprs: Sequence[str]) -> list[bool]:
        """Tell of expressions whether Spark refuses them for the types in them, whatever values."""
        items = ", ".join(f"{each} as x{number}" for number, each in enumerate(exprs))
        found = self._analysed(f"select {items} from a")
        if found is not None and len(found) == len(exprs):
            return [each in _MISMATCHES for each in found]
        if len(exprs) > 8:
            half = len(exprs) // 2
            return [*self.mismatches(exprs[:half]), *self.mismatches(exprs[half:])]
        return [self.refusal(f"select {each} as x from a") in _MISMATCHES for each in exprs]

    def _analysed(self, query: str) -> list[str] | None:
        """Return what is wrong with each column of a query; None if Spark looks no further."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            plan = self._state.analyzer().execute(self._state.sqlParser().parsePlan(query))
            exprs = plan.expressions()
            return [self._wrong(exprs.apply(number)) for number in range(exprs.size())]
        except (PySparkException, Py4JJavaError):
            return None

    def _wrong(self, expr: Any) -> str:
        if expr.resolved():
            return ""
        inner = expr.children()
        for number in range(inner.size()):
            if found := self._wrong(inner.apply(number)):
                return found
        if not expr.childrenResolved():
            return "not resolved"
        checked = expr.checkInputDataTypes()
        if checked.isSuccess():
            return "not resolved"
        kind = checked.getClass().getSimpleName()
        return (
            f"DATATYPE_MISMATCH.{checked.errorSubClass()}" if kind == "DataTypeMismatch" else kind
        )


def _forms(letter: str) -> Iterator[str]:
    """Yield expressions of a kind, those that are likelier taken first."""
    for number in range(len(KINDS.get(letter, ()))):
        yield f"{letter}{number}"
    yield from CONSTANTS.get(letter, ())


LETTERS = (*KINDS, "q")
_PARTNERS = ("A0", "A1", "M0", "t0", "i0", "D0", "T0")


class Form:
    """A function with a number of arguments, or an operator."""

    def __init__(self, name: str, text: str, count: int, analyser: Analyser) -> None:
        self.name, self.text, self.count = name, text, count
        self._ask = analyser.mismatches
        self._known: dict[str, bool] = {}

    def refuses(self, given: Iterable[tuple[str, ...]]) -> Mapping[tuple[str, ...], bool]:
        """Tell of arguments whether they are refused."""
        texts = {each: self.text.format(*each) for each in given}
        new = [text for text in dict.fromkeys(texts.values()) if text not in self._known]
        for start in range(0, len(new), 100):
            part = new[start : start + 100]
            self._known |= dict(zip(part, self._ask(part), strict=True))
        return {each: self._known[text] for each, text in texts.items()}

    def taken(self) -> tuple[tuple[str, ...], ...]:
        """Return groups of letters for each argument: those of one group are taken together."""
        if self.count > 2:
            return self._places()
        forms = {letter: tuple(_forms(letter)) for letter in LETTERS}
        given = product(*[[each for of in forms.values() for each in of]] * self.count)
        refused = self.refuses(given)

        def takes(*letters: str) -> bool:
            return any(not refused[each] for each in product(*(forms[of] for of in letters)))

        if self.count == 1:
            found = "".join(filter(takes, LETTERS))
            return ((found,),) if found else ()
        rights: dict[str, str] = {}
        for left in LETTERS:
            found = "".join(right for right in LETTERS if takes(left, right))
            if found and self.name in _BY_ITEMS:
                found = "".join(LETTERS)
            if found:
                rights[found] = rights.get(found, "") + left
        return tuple((left, right) for right, left in rights.items())

    def _places(self) -> tuple[tuple[str, ...], ...]:
        """Return the letters that each place takes beside some of the others."""
        draw = Random(self.name)
        forms = [each for letter in LETTERS for each in _forms(letter)]
        drawn = [(form,) * self.count for form in forms]
        for of in (forms, _PARTNERS):
            drawn += [tuple(draw.choice(of) for _ in range(self.count)) for _ in range(1000)]
        known = [given for given, refused in self.refuses(drawn).items() if not refused][:8]
        if len(known) < 2:
            return ()  # too little is known of it
        return (
            tuple(
                "".join(letter for letter in LETTERS if self._fits(at, letter, known))
                for at in range(self.count)
            ),
        )

    def _fits(self, at: int, letter: str, known: Sequence[tuple[str, ...]]) -> bool:
        """Tell whether a kind is taken beside what is known, or beside types that go with it."""
        for form in _forms(letter):
            tried = {(*given[:at], form, *given[at + 1 :]) for given in known}
            for other, each in product(range(self.count), _PARTNERS):
                if other != at:
                    tried |= {(*g[:other], each, *g[other + 1 :]) for g in tuple(tried)[:2]}
            if not all(self.refuses(tried).values()):
                return True
        return False


def _calls() -> Iterator[tuple[str, int]]:
    for name, arity in sorted(ARITIES.items()):
        if name in _SPECIAL or name.startswith(_LEFT_OUT):
            continue
        counts = sorted(arity.numbers) or ([arity.least] if arity.least else [])
        if arity.pairs or (arity.least is not None and arity.least == 1):
            counts = [2] if name in {"coalesce", "map"} else []
        if arity.least == 2:
            counts = [2] if name in {"greatest", "least"} else []
        for count in counts:
            if 0 < count <= _GROUPED:
                yield name, count
    yield from ((name, 2) for name in ("array", "date_add", "datediff"))


def _table(
    analyser: Analyser, names: Sequence[str]
) -> Mapping[tuple[str, int], tuple[tuple[str, ...], ...]]:
    forms = [Form(name, text, text.count("{}"), analyser) for name, text in OPERATORS.items()]
    for name, count in dict.fromkeys(_calls()):
        text = f"{name}({', '.join(['{}'] * count)})"
        forms.append(Form(name, text, count, analyser))
    found = {
        key: tuple(
            tuple("".join(sorted(of, key=LETTERS.index)) for of in group) for group in groups
        )
        for key, groups in ACCEPTED.items()
        if names and key[0] not in names
    }
    for form in forms:
        if names and form.name not in names:
            continue
        found[form.name, form.count] = form.taken()
        print(form.name, form.count, found[form.name, form.count], flush=True)
    return found


_WRAPPED: Any = {
    "width": 96,
    "initial_indent": "    ",
    "subsequent_indent": "        ",
    "break_long_words": False,
    "break_on_hyphens": False,
}


def _written(table: Mapping[tuple[str, int], tuple[tuple[str, ...], ...]]) -> Iterable[str]:
    """Return lines of groups, a colon and the functions that have them."""
    names: dict[str, list[str]] = {}
    for (name, _), groups in table.items():
        if groups and any(set(letters) != set(LETTERS) for g in groups for letters in g):
            names.setdefault(" ".join(">".join(group) for group in groups), []).append(name)
    lines = (f"{form} : {' '.join(each)}" for form, each in sorted(names.items()))
    return [part for line in lines for part in wrap(line, **_WRAPPED)]


def main() -> None:
    """Ask for everything, and write the table."""
    path = Path(arities.__file__).with_name("argument_types.py")
    with tempfile.TemporaryDirectory() as top, SparkEngine(Path(top) / "jvm", cores=1) as engine:
        lines = _written(_table(Analyser(engine), sys.argv[1:]))
    before, mark, _ = path.read_text("utf-8").partition("_TAKEN: Final = ")
    *_, after = path.read_text("utf-8").partition('\n"""  # end of what is generated\n')
    text = "\n".join(lines)
    path.write_text(f'{before}{mark}"""\n{text}\n"""  # end of what is generated\n{after}', "utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", str(path)], check=True)


if __name__ == "__main__":
    main()
