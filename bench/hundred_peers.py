"""The project of `bench.hundred` for dbt and for SQLMesh, both over DuckDB.

Every run begins with a database that holds the first rows, and takes in the second ones: roots from
CSV files, derivatives from what is new in them; groups are rebuilt for the keys that are touched.
"""

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.measure import DATA, Command
from bench.planning import QUIET, installed

__all__ = ["dbt_commands", "sqlmesh_commands"]

_LINEAR = (
    "select event_time, id, k, upper(trim(city)) as city,\n"
    "  case when amount > {number} then amount * 2 else amount end as amount,\n"
    "  concat(city, '-{number}') as note\nfrom {source}\nwhere amount is not null and {new}"
)
_KEYED = (
    "select k, max(event_time) as event_time, count(1) as n, sum(amount) as total\n"
    "from {source}\nwhere amount > {number} and k in (select k from {source} where {new})\n"
    "group by k"
)
_DBT_ROOT = """\
{{ config(materialized='incremental') }}
select * from read_csv('data/ROOT/*.csv')
{% if is_incremental() %}where id > (select max(id) from {{ this }}){% endif %}
"""


def dbt_commands(project: Path, case: str, count: int) -> list[Command]:
    """Return the run of the project by dbt."""
    folder = project / "dbt"
    program = str(installed("dbt") / "dbt")
    run = (program, "run", "--profiles-dir", ".", "--threads", "4", "--quiet")
    _base(project, folder, partial(_write_dbt, project, folder, case, count), [run])
    return [_command("dbt run", run, project, folder)]


def sqlmesh_commands(project: Path, case: str, count: int) -> list[Command]:
    """Return the run of the project by SQLMesh, by days; the second rows are one.

    It is asked for by name: by itself SQLMesh runs up to now, and the rows are of later.
    """
    folder = project / "sqlmesh"
    program = str(installed("sqlmesh") / "sqlmesh")
    first = (
        program, "plan", "--auto-apply", "--no-prompts", "--execution-time", "2031-01-02 00:00:00",
    )  # fmt: skip
    run = (
        program, "plan", "--auto-apply", "--no-prompts", "--restate-model", "bench.*",
        "--start", "2031-01-02", "--end", "2031-01-02", "--execution-time", "2031-01-03 00:00:00",
    )  # fmt: skip
    _base(project, folder, partial(_write_sqlmesh, project, folder, case, count), [first])
    return [_command("sqlmesh, one day", run, project, folder)]


def _command(name: str, arguments: tuple[str, ...], project: Path, folder: Path) -> Command:
    return Command(
        name=name, arguments=arguments, folder=folder, settings=QUIET,
        prepare=partial(_fresh, project, folder),
    )  # fmt: skip


def _base(
    project: Path, folder: Path, write: Callable[[], None], first: list[tuple[str, ...]]
) -> None:
    """Write a project and take in the first rows, once."""
    if (folder / "base.duckdb").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    for root in _roots(project):
        (folder / "data" / root).mkdir(parents=True)
        shutil.copy(project / "data" / root / "1.csv", folder / "data" / root / "1.csv")
    (folder / "models").mkdir()
    write()
    for command in first:
        with (DATA / "bench.log").open("ab") as log:
            subprocess.run(command, cwd=folder, check=True, stdout=log, stderr=log)
    shutil.copy(folder / "bench.duckdb", folder / "base.duckdb")


def _fresh(project: Path, folder: Path) -> None:
    for left in folder.glob("bench.duckdb*"):
        left.unlink()
    shutil.copy(folder / "base.duckdb", folder / "bench.duckdb")
    for root in _roots(project):
        shutil.copy(project / "next" / f"{root}.csv", folder / "data" / root / "2.csv")


def _roots(project: Path) -> list[str]:
    return sorted(path.name for path in (project / "data").iterdir())


def _plain(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _write_dbt(project: Path, folder: Path, case: str, count: int) -> None:
    (folder / "dbt_project.yml").write_text(
        "name: bench\nversion: '1.0'\nprofile: bench\nmodel-paths: [models]\n"
    )
    (folder / "profiles.yml").write_text(
        "bench:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: bench.duckdb}\n"
    )
    roots = _roots(project)
    for root in roots:
        (folder / "models" / f"{_plain(root)}.sql").write_text(_DBT_ROOT.replace("ROOT", root))
    for number in range(count):
        keyed = case == "keyed" and number % 2
        more = ", unique_key='k'" if keyed else ""
        new = (
            "{% if is_incremental() %}event_time > (select max(event_time) from {{ this }})"
            "{% else %}true{% endif %}"
        )
        query = (_KEYED if keyed else _LINEAR).format(
            number=number, source=f"{{{{ ref('{_plain(roots[number % len(roots)])}') }}}}", new=new
        )
        (folder / "models" / f"made_{number:03d}.sql").write_text(
            f"{{{{ config(materialized='incremental'{more}) }}}}\n{query}\n"
        )


def _write_sqlmesh(project: Path, folder: Path, case: str, count: int) -> None:
    (folder / "config.yaml").write_text(
        "gateways:\n  dev:\n    connection: {type: duckdb, database: bench.duckdb,"
        " concurrent_tasks: 4}\ndefault_gateway: dev\n"
        "model_defaults: {dialect: duckdb, start: 2031-01-01, cron: '@daily'}\n"
    )
    roots = _roots(project)
    new = "event_time between @start_dt and @end_dt"
    by_time = "INCREMENTAL_BY_TIME_RANGE (time_column event_time)"
    for root in roots:
        query = (
            "select event_time::timestamp as event_time, id::bigint as id, k::bigint as k, "
            "city::varchar as city, amount::bigint as amount\n"
            f"from read_csv('data/{root}/*.csv')\nwhere {new}"
        )
        _model(folder, f"bench.{_plain(root)}", by_time, query)
    for number in range(count):
        keyed = case == "keyed" and number % 2
        query = (_KEYED if keyed else _LINEAR).format(
            number=number, source=f"bench.{_plain(roots[number % len(roots)])}", new=new
        )
        kind = "INCREMENTAL_BY_UNIQUE_KEY (unique_key k)" if keyed else by_time
        _model(folder, f"bench.made_{number:03d}", kind, query)


def _model(folder: Path, name: str, kind: str, query: str) -> None:
    text = f"MODEL (name {name}, kind {kind});\n\n{query}\n"
    (folder / "models" / f"{name.partition('.')[2]}.sql").write_text(text)
