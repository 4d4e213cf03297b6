"""The pipeline's derivatives over what has arrived, computed at once in plain Python.

Nothing of odfbuild is used here: each function says a query of `pipeline.DERIVED` in other words.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from tests.real.pipeline import Arrived
from tests.real.published import Row

__all__ = ["batch"]

_Rows: TypeAlias = list[Row]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def batch(arrived: Arrived) -> Mapping[str, _Rows]:
    """Return the rows of every derivative."""
    found: dict[str, _Rows] = {}
    found["reported"] = [
        {name: row[name] for name in ("event_time", "region", "intensive", "deaths", "cases")}
        for row in arrived.regions
        if row["cases"] > 0
    ]
    found["people"] = _people(arrived.population)
    found["months"] = _months(arrived.national)
    found["weeks"] = _weeks(arrived.weather)
    found["skies"] = _skies(arrived.weather)
    reported = found["reported"]
    found["rates"] = _rates(reported, found["people"])
    found["worst"] = _worst(reported)
    found["running"] = _running(reported)
    found["fortnights"] = _fortnights(reported, arrived.regions)
    found["gaps"] = _gaps(arrived.national, reported)
    found["rises"] = _rises(reported)
    found["beds"] = _beds(arrived.national, reported)
    found["leading"] = _leading(found["worst"])
    found["latest"] = _latest(found["rates"])
    found["steps"] = _steps(found["running"])
    found["leaders"] = _leaders(found["leading"], found["latest"])
    timed = (found["leading"], found["skies"], found["months"])
    times = {row["event_time"] for rows in timed for row in rows}
    found["calendar"] = [{"event_time": time} for time in times]
    found["behind"] = _behind(reported, found["leading"])
    found["how-often"] = _how_often(found["leading"])
    return found


def _grouped(rows: Iterable[Row], key: Callable[[Row], object]) -> list[_Rows]:
    groups: dict[object, _Rows] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _month(row: Row) -> datetime:
    time: datetime = row["event_time"]
    return time.replace(day=1, hour=0, minute=0, second=0)


def _start(row: Row, days: int) -> datetime:
    """Return when the window begins; windows are counted from 1970 on."""
    time: datetime = row["event_time"]
    return _EPOCH + (time - _EPOCH) // timedelta(days) * timedelta(days)


def _latest_time(rows: Iterable[Row]) -> datetime:
    found: datetime = max(row["event_time"] for row in rows)
    return found


def _people(rows: Iterable[Row]) -> _Rows:
    return [
        {
            "event_time": _latest_time(each),
            "region": each[0]["region"],
            "people": sum(row["people"] for row in each),
            "ages": len(each),
        }
        for each in _grouped(rows, lambda row: row["region"])
    ]


def _months(rows: Iterable[Row]) -> _Rows:
    found = []
    for each in _grouped(rows, _month):
        beds = [row["intensive"] for row in each if row["intensive"] is not None]
        row = {"event_time": _month(each[0]), "days": len(each)}
        row["cases"] = max(row["cases"] for row in each)
        found.append({**row, "fewest": min(beds, default=None), "beds": sum(beds) or None})
    return found


def _weeks(rows: _Rows | Iterable[Row]) -> _Rows:
    rows = list(rows)
    week, now = timedelta(7), _latest_time(rows)
    return [
        {
            "event_time": _start(each[0], 7),
            "days": len(each),
            "rain": sum((Decimal(row["rain"]) for row in each), Decimal()),
            "warmest": max(row["warmest"] for row in each),
        }
        for each in _grouped(rows, lambda row: _start(row, 7))
        if _start(each[0], 7) + week <= now
    ]


def _skies(rows: Iterable[Row]) -> _Rows:
    counts = Counter((_month(row), row["sky"]) for row in rows)
    return [{"event_time": m, "sky": sky, "days": days} for (m, sky), days in counts.items()]


def _rates(reported: _Rows, people: _Rows) -> _Rows:
    living = {row["region"]: row["people"] for row in people}
    columns = ("event_time", "region", "cases")
    return [
        {
            **{name: row[name] for name in columns},
            "people": living[row["region"]],
            "rate": row["cases"] * 100_000 // living[row["region"]],
        }
        for row in reported
        if row["region"] in living
    ]


def _worst(reported: _Rows) -> _Rows:
    found = []
    for day in _grouped(reported, lambda row: row["event_time"]):
        for row in day:
            place = 1 + sum(other["cases"] > row["cases"] for other in day)
            if place <= 3:
                columns = {name: row[name] for name in ("event_time", "region", "cases")}
                found.append({**columns, "place": place})
    return found


def _running(reported: _Rows) -> _Rows:
    return [
        {
            "event_time": row["event_time"],
            "region": row["region"],
            "so_far": sum(r["intensive"] for r in each if r["event_time"] <= row["event_time"]),
        }
        for each in _grouped(reported, lambda row: row["region"])
        for row in each
    ]


def _fortnights(reported: _Rows, regions: Iterable[Row]) -> _Rows:
    now, length = _latest_time(regions), timedelta(14)
    groups = _grouped(reported, lambda row: (row["region"], _start(row, 14)))
    return [
        {
            "event_time": _start(each[0], 14) + length,
            "region": each[0]["region"],
            "cases": max(row["cases"] for row in each),
            "days": len(each),
        }
        for each in groups
        if _start(each[0], 14) + length <= now
    ]


def _gaps(national: Iterable[Row], reported: _Rows) -> _Rows:
    found = []
    for day in national:
        regions = [r["region"] for r in reported if r["event_time"] == day["event_time"]]
        columns = {name: day[name] for name in ("event_time", "cases")}
        found += [{**columns, "region": region} for region in regions or [None]]
    return found


def _rises(reported: _Rows) -> _Rows:
    return [
        {
            "event_time": row["event_time"],
            "region": row["region"],
            "since": before["event_time"],
            "more": row["cases"] - before["cases"],
        }
        for each in _grouped(reported, lambda row: row["region"])
        for before in each
        for row in each
        if timedelta(hours=1) <= row["event_time"] - before["event_time"] <= timedelta(2)
    ]


def _beds(national: Iterable[Row], reported: _Rows) -> _Rows:
    whole = [{**row, "region": "Italia"} for row in national if row["intensive"] is not None]
    return [
        {
            "event_time": _latest_time(each),
            "area": each[0]["region"],
            "most": max(row["intensive"] for row in each),
        }
        for each in _grouped([*whole, *reported], lambda row: row["region"])
    ]


def _leading(worst: _Rows) -> _Rows:
    pairs = {(_month(row), row["region"]) for row in worst}
    return [{"event_time": month, "region": region} for month, region in pairs]


def _latest(rates: _Rows) -> _Rows:
    newest = [
        max(each, key=lambda row: row["event_time"])
        for each in _grouped(rates, lambda row: row["region"])
    ]
    return [{name: row[name] for name in ("event_time", "region", "rate")} for row in newest]


def _steps(running: _Rows) -> _Rows:
    found = []
    for each in _grouped(running, lambda row: row["region"]):
        before = None
        for row in sorted(each, key=lambda row: row["event_time"]):
            found.append({**row, "more": None if before is None else row["so_far"] - before})
            before = row["so_far"]
    return found


def _leaders(leading: _Rows, latest: _Rows) -> _Rows:
    rates = {row["region"]: row["rate"] for row in latest}
    return [{**row, "rate": rates.get(row["region"])} for row in leading]


def _behind(reported: _Rows, leading: _Rows) -> _Rows:
    ahead = {row["region"] for row in leading}
    return [
        {name: row[name] for name in ("event_time", "region", "cases")}
        for row in reported
        if row["region"] not in ahead
    ]


def _how_often(leading: _Rows) -> _Rows:
    return [
        {"event_time": _latest_time(each), "region": each[0]["region"], "months": len(each)}
        for each in _grouped(leading, lambda row: row["region"])
    ]
