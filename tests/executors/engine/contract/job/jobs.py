"""Jobs to be run: rows in Parquet, a query over them, and the document of the request."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.engine.contract.job import JobRequest, write_request
from odfbuild.executors.engine.objects.files import job_file
from odfbuild.odf.events import SqlQueryStep, TransformSql
from odfbuild.odf.messages import RawQueryRequest

ROWS = pa.table({"k": ["a", "b", "a", None], "v": [1, 2, 3, 4]})
QUERY = "select k, sum(v) as v from input group by k order by k nulls last"
RESULT = [{"k": "a", "v": 4}, {"k": "b", "v": 2}, {"k": None, "v": 4}]


def raw_query(
    folder: Path, query: str = QUERY, engine: str = "datafusion", limit: float = 60
) -> bytes:
    """Write the file of a request into a folder, and return the document of the request."""
    pq.write_table(ROWS, folder / "rows.parquet")
    transform = TransformSql(engine=engine, queries=(SqlQueryStep(query=query),))
    message = RawQueryRequest(("rows.parquet",), transform, "made.parquet")
    files = (job_file(folder / "rows.parquet", "rows.parquet"),)
    return write_request(
        JobRequest(operation="ExecuteRawQuery", message=message, files=files, limit=limit)
    )


def rows_of(path: Path) -> Sequence[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows
