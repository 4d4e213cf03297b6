"""Spark's exceptions: what the analyser raises is about the query, whatever Spark calls it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
)

from odfbuild.errors import EngineError
from odfbuild.executors.engine.analysis import EngineFaultError, QueryPlace
from odfbuild.executors.engine.spark.errors import SentQuery, SparkQueryError, spark_errors
from odfbuild.sql.text.edits import CarriedText

SENT = SentQuery(0, 1, CarriedText("select 1 as a", ()))
CONDITIONS = st.from_regex(r"[A-Z][A-Z_]{2,20}(\.[A-Z_]{3,20})?", fullmatch=True).filter(
    lambda name: not name.startswith(("INTERNAL_ERROR", "FAILED_EXECUTE_UDF", "SPARK_JOB_"))
)
LEGACY = st.integers(1000, 3999).map("_LEGACY_ERROR_TEMP_{}".format)
STATES = st.none() | st.from_regex(r"[0-9A-Z]{5}", fullmatch=True)


def thrown(kind: type[PySparkException], condition: str | None, state: str | None) -> Any:
    class Thrown(kind):  # type: ignore[misc]
        def getCondition(self) -> str | None:
            return condition

        def getSqlState(self) -> str | None:
            return state

        def getQueryContext(self) -> tuple[()]:
            return ()

    return Thrown("it is refused")


def raised(error: Exception) -> EngineError:
    with pytest.raises(EngineError) as caught:  # noqa: SIM117
        with spark_errors("read the query", (SENT,)):
            raise error
    return caught.value


@given(st.sampled_from([AnalysisException, ParseException]), CONDITIONS | LEGACY, STATES)
def test_what_the_analyser_refuses_is_wrong_with_the_query(
    kind: type[PySparkException], condition: str, state: str | None
) -> None:
    error = raised(thrown(kind, condition, state))
    assert isinstance(error, SparkQueryError)
    assert error.at == QueryPlace(0, None)
    assert "_LEGACY" not in f"{error.what}{error.why}"


def test_a_refusal_without_a_name_is_one_too() -> None:
    assert isinstance(raised(thrown(AnalysisException, None, None)), SparkQueryError)


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        (AnalysisException, "INTERNAL_ERROR"),
        (SparkRuntimeException, "_LEGACY_ERROR_TEMP_2000"),
        (IllegalArgumentException, None),
    ],
)
def test_all_else_is_a_fault_of_the_engine(kind: type[PySparkException], condition: str) -> None:
    assert isinstance(raised(thrown(kind, condition, None)), EngineFaultError)


def test_a_connection_that_broke_off_is_no_answer_to_a_question() -> None:
    assert not isinstance(raised(ConnectionResetError()), EngineFaultError)
