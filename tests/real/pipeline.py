"""A pipeline of derivative datasets on real tables, four levels deep: what is declared, and how.

`Pipeline.feed` lets the next portion of every source arrive as files that are cut out of the
published ones; some days come late, and later portions correct rows of earlier ones.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.real.building import DATA, NATIONAL_FILES, REGION_FILES, Building
from tests.real.published import Row, header, national, regional

__all__ = ["DERIVED", "Arrived", "Derived", "Pipeline", "arrivals"]

_WEATHER_FILES = tuple(sorted((DATA / "vega-datasets" / "seattle-weather").glob("*.csv")))
_PEOPLE = DATA / "italy-covid-regions" / "lookup" / "popolazione-istat-regione-range.csv"

_ROOTS = {
    "regions": ("Ledger", "event_time, region", "intensive INT, deaths INT, cases INT, tests INT"),
    "national": ("Snapshot", "event_time", "intensive INT, deaths INT, cases INT"),
    "weather": ("Snapshot", "event_time", "rain DECIMAL(6,1), warmest DOUBLE, sky STRING"),
    "population": ("Snapshot", "region, ages", "people INT"),
}
_TYPES = {"event_time": "TIMESTAMP NOT NULL"}


@dataclass(frozen=True, slots=True)
class Derived:
    """A derivative dataset: its inputs, its level, and its steps by alias; the last has none."""

    level: int
    inputs: tuple[str, ...]
    steps: Mapping[str, str]


def _one(level: int, inputs: str, query: str) -> Derived:
    return Derived(level, tuple(inputs.split()), {"": query})


DERIVED: Mapping[str, Derived] = {
    "reported": _one(
        1,
        "regions",
        "select event_time, region, intensive, deaths, cases from regions where cases > 0",
    ),
    "people": _one(
        1,
        "population",
        "select max(event_time) as event_time, region, sum(people) as people, count(*) as ages "
        "from population group by region",
    ),
    "months": _one(
        1,
        "national",
        "select date_trunc('month', event_time) as event_time, count(*) as days, "
        "max(cases) as cases, min(intensive) as fewest, sum(intensive) as beds "
        "from national group by date_trunc('month', event_time)",
    ),
    "weeks": _one(
        1,
        "weather",
        "select window.start as event_time, count(*) as days, sum(rain) as rain, "
        "max(warmest) as warmest from weather group by window(event_time, '7 days')",
    ),
    "skies": _one(
        1,
        "weather",
        "select date_trunc('month', event_time) as event_time, sky, count(*) as days "
        "from weather group by date_trunc('month', event_time), sky",
    ),
    "rates": _one(
        2,
        "reported people",
        "select r.event_time, r.region, cases, people, "
        "cast(cases as bigint) * 100000 div people as rate "
        "from reported r join people p on r.region = p.region",
    ),
    "worst": _one(
        2,
        "reported",
        "select event_time, region, cases, place from (select event_time, region, cases, "
        "rank() over (partition by event_time order by cases desc) as place from reported) "
        "where place <= 3",
    ),
    "running": _one(
        2,
        "reported",
        "select event_time, region, sum(intensive) over (partition by region order by event_time "
        "range between unbounded preceding and current row) as so_far from reported",
    ),
    "fortnights": _one(
        2,
        "reported",
        "select window.end as event_time, region, max(cases) as cases, count(*) as days "
        "from reported group by window(event_time, '14 days'), region",
    ),
    "gaps": _one(
        2,
        "national reported",
        "select n.event_time, n.cases, r.region from national n "
        "left join reported r on n.event_time = r.event_time",
    ),
    "rises": _one(
        2,
        "reported",
        "select b.event_time, b.region, a.event_time as since, b.cases - a.cases as more "
        "from reported a join reported b on a.region = b.region and b.event_time between "
        "a.event_time + interval 1 hour and a.event_time + interval 2 days",
    ),
    "beds": Derived(
        2,
        ("national", "reported"),
        {
            "whole": "select event_time, 'Italia' as area, intensive from national "
            "where intensive is not null",
            "parts": "select event_time, region as area, intensive from reported",
            "all": "select * from whole union all select * from parts",
            "": "select max(event_time) as event_time, area, max(intensive) as most "
            "from `all` group by area",
        },
    ),
    "leading": _one(
        3,
        "worst",
        "select distinct date_trunc('month', event_time) as event_time, region from worst",
    ),
    "latest": Derived(
        3,
        ("rates",),
        {
            "newest": "select region, max(event_time) as at from rates group by region",
            "": "with known as (select * from rates where rate is not null) "
            "select k.event_time, k.region, k.rate from known k "
            "join newest n on k.region = n.region and k.event_time = n.at",
        },
    ),
    "steps": _one(
        3,
        "running",
        "select event_time, region, so_far, so_far - lag(so_far) over "
        "(partition by region order by event_time) as more from running",
    ),
    "leaders": _one(
        4,
        "leading latest",
        "select l.event_time, l.region, t.rate from leading l "
        "left join latest t on l.region = t.region",
    ),
    "calendar": _one(
        4,
        "leading skies months",
        "select event_time from leading union select event_time from skies "
        "union select event_time from months",
    ),
    "behind": _one(
        4,
        "reported leading",
        "select r.event_time, r.region, r.cases from reported r "
        "left anti join leading l on r.region = l.region",
    ),
    "how-often": _one(
        4,
        "leading",
        "select max(event_time) as event_time, region, count(*) as months "
        "from leading group by region",
    ),
}


@dataclass(frozen=True, slots=True)
class Arrived:
    """What the roots hold once a portion has arrived."""

    regions: Sequence[Row]
    national: Sequence[Row]
    weather: Sequence[Row]
    population: Sequence[Row]


class Pipeline(Building):
    """The project of the pipeline, its data fed in portions."""

    @classmethod
    def at(cls, root: Path) -> "Pipeline":
        """Write the project, without any data."""
        (root / "datasets").mkdir(parents=True)
        (root / "odfbuild.yaml").write_text("odfbuild: 1\n", "utf-8")
        for name, (merge, key, columns) in _ROOTS.items():
            _declare(root, name, "Root", _polling(name, merge, key.split(", "), columns))
        for name, each in DERIVED.items():
            _declare(root, name, "Derivative", _transform(each))
        return cls(root)

    def feed_portion(self, number: int, before: Arrived | None, now: Arrived) -> None:
        """Let a portion arrive: whole tables, but of the ledger the new rows only."""
        known = 0 if before is None else len(before.regions)
        for name, rows in (
            ("regions", now.regions[known:]),
            ("national", now.national),
            ("weather", now.weather),
            ("population", now.population),
        ):
            path = self.root / "data" / name / f"{number:03}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, list(rows))


def arrivals(portions: int) -> list[Arrived]:
    """Return what has arrived after each of so many portions of the published tables."""
    days = _late([_region_rows(path) for path in REGION_FILES])
    people = sorted(_people(), key=lambda row: str(row["ages"]))
    found = []
    for number in range(1, portions + 1):

        def share(whole: int, number: int = number) -> int:
            return -(-whole * number // portions)

        tables = [_weather(path) for path in _WEATHER_FILES]
        weather = tables[share(len(tables)) - 1]
        found.append(
            Arrived(
                [row for rows in days[: share(len(days))] for row in rows],
                _national(NATIONAL_FILES[share(len(NATIONAL_FILES)) - 1]),
                weather[: share(len(weather))],
                people[: share(len(people))],
            )
        )
    return found


def _late(days: list[list[Row]]) -> list[list[Row]]:
    """Return the days with every fourth one at the end, so that it comes late."""
    return [day for at, day in enumerate(days) if at % 4 != 1] + days[1::4]


def _region_rows(path: Path) -> list[Row]:
    return [
        {"event_time": row["data"], "region": row["denominazione_regione"], **_figures(row)}
        | {"tests": row["tamponi"]}
        for row in regional(path, header(path))
    ]


def _national(path: Path) -> list[Row]:
    return [{"event_time": time, **_figures(row)} for time, row in national(path).items()]


def _figures(row: Row) -> Row:
    names = {"intensive": "terapia_intensiva", "deaths": "deceduti", "cases": "totale_casi"}
    return {name: row[published] for name, published in names.items()}


def _weather(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as source:
        return [
            {
                "event_time": _day(row["date"]),
                "rain": row["precipitation"],
                "warmest": float(row["temp_max"]),
                "sky": row["weather"],
            }
            for row in csv.DictReader(source)
        ]


def _day(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("/", "-")).replace(tzinfo=UTC)


def _people() -> list[Row]:
    with _PEOPLE.open(newline="", encoding="utf-8") as source:
        return [
            {
                "event_time": datetime(2019, 1, 1, tzinfo=UTC),
                "region": row["denominazione_regione"],
                "ages": row["range_eta"],
                "people": int(row["totale_generale"]),
            }
            for row in csv.DictReader(source)
        ]


# --- the project's files ---------------------------------------------------------------------


def _write(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as target:
        out = csv.DictWriter(target, list(rows[0]))
        out.writeheader()
        for row in rows:
            out.writerow({**row, "event_time": row["event_time"].isoformat()})


def _declare(root: Path, name: str, kind: str, event: object) -> None:
    content = {"name": name, "kind": kind, "metadata": [event]}
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    (root / "datasets" / f"{name}.yaml").write_text(json.dumps(manifest, indent=1), "utf-8")


def _polling(name: str, merge: str, key: Iterable[str], columns: str) -> object:
    keys = dict.fromkeys(["event_time", *key])
    lines = [f"{each} {_TYPES.get(each, 'STRING')}" for each in keys]
    return {
        "kind": "SetPollingSource",
        "fetch": {"kind": "FilesGlob", "path": f"data/{name}/*.csv"},
        "read": {
            "kind": "Csv", "header": True,
            "schema": [*lines, *_columns(columns)],
        },
        "merge": {"kind": merge, "primaryKey": list(key)},
    }  # fmt: skip


def _columns(text: str) -> list[str]:
    return [each.strip() for each in re.split(r",(?!\d)", text)]


def _transform(each: Derived) -> object:
    steps = [
        {**({"alias": alias} if alias else {}), "query": query}
        for alias, query in each.steps.items()
    ]
    return {
        "kind": "SetTransform",
        "inputs": [{"datasetRef": name, "alias": name} for name in each.inputs],
        "transform": {"kind": "Sql", "engine": "spark", "queries": steps},
    }
