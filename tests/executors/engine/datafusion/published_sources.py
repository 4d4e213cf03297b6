"""Published definitions with made-up rows: each source is a file of the form that it reads.

The columns and types are those of `read.schema`; without one, those that the query names.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from tests.executors.ingest.read.shapefiles import parts, polygon, zipped

ROWS = 7
_TRIANGLE = polygon([(0.0, 0.0), (0.0, 10.0), (10.0, 10.0), (0.0, 0.0)])
_LIST = re.compile(r"array<(\w+)>", re.IGNORECASE)
_TAX = (
    "PID", "LEGAL_TYPE", "FOLIO", "LAND_COORDINATE", "ZONING_DISTRICT", "ZONING_CLASSIFICATION",
    "LOT", "PLAN", "BLOCK", "DISTRICT_LOT", "FROM_CIVIC_NUMBER", "TO_CIVIC_NUMBER", "STREET_NAME",
    "PROPERTY_POSTAL_CODE", "NARRATIVE_LEGAL_LINE1", "NARRATIVE_LEGAL_LINE2",
    "NARRATIVE_LEGAL_LINE3", "NARRATIVE_LEGAL_LINE4", "NARRATIVE_LEGAL_LINE5",
    "CURRENT_LAND_VALUE", "CURRENT_IMPROVEMENT_VALUE", "TAX_ASSESSMENT_YEAR",
    "PREVIOUS_LAND_VALUE", "PREVIOUS_IMPROVEMENT_VALUE", "YEAR_BUILT", "BIG_IMPROVEMENT_YEAR",
    "TAX_LEVY", "NEIGHBOURHOOD_CODE",
)  # fmt: skip


def day(number: int) -> str:
    return (date(2021, 3, 1) + timedelta(days=number)).isoformat()


def _tax(year: str) -> Callable[[int], dict[str, Any]]:
    return lambda n: {**dict.fromkeys(_TAX, f"{n}"), "REPORT_YEAR": year, "PID": f"{n:03}"}


COLUMNS: dict[str, Callable[[int], dict[str, Any]]] = {
    "ca.bccdc.covid19.case-details": lambda n: {
        "Reported_Date": day(n), "HA": "Fraser", "Sex": "MF"[n % 2], "Age_Group": "20-29",
        "Classification_Reported": "Lab-diagnosed",
    },
    "ca.gc.statcan.census-2016.geo-bounds": lambda n: {
        "PRUID": f"{n}", "PRENAME": f"Name {n}", "PREABBR": f"A{n}",
    },
    "ca.ontario.data.covid19.case-details": lambda n: {
        "Row_ID": f"{n}", "Case_Reported_Date": day(n), "Outcome1": "Resolved",
        "Test_Reported_Date": day(n) if n % 3 else None, "Reporting_PHU_City": "Toronto",
        "Client_Gender": "FEMALE", "Age_Group": "30s", "Reporting_PHU_Latitude": "43.6",
        "Reporting_PHU_Longitude": "-79.3",
    },
    "ca.vancouver.opendata.property.block-outlines": lambda n: {"site": f"s{n}", "area": n * 1.5},
    "ca.vancouver.opendata.property.parcel-polygons": lambda n: {"site": f"s{n}", "area": n * 1.5},
    "ca.vancouver.opendata.property.tax-report.2006-2010": _tax("2006"),
    "ca.vancouver.opendata.property.tax-report.2011-2015": _tax("2011"),
    "com.medium.kamu-data.claps": lambda n: {"entry_url": f"https://m/{n}", "claps": n * 3},
    "com.naturalearthdata.admin0.countries.10m": lambda n: {
        "ADMIN": f"Land {n}", "ISO_A2": f"A{n}", "ISO_A3": f"AB{n}",
    },
    "com.naturalearthdata.admin0.countries.50m": lambda n: {
        "ADMIN": f"Land {n}", "ISO_A2": f"A{n}", "ISO_A3": f"AB{n}",
    },
    "com.naturalearthdata.admin1.states-provinces.50m": lambda n: {
        "iso_3166_2": f"AB-{n}", "name": f"State {n}",
    },
    "com.youtube.channel.kamu-data.stats": lambda n: {
        "channel_id": f"c{n}", "title": f"t{n}", "video_count": f"{n}", "view_count": "3",
    },
    "hk.gov.data.covid-19.eng": lambda n: {
        "Case no.": f"{n}", "Report date": f"{n + 1:02}/03/2020", "Gender": "M", "Age": f"{n}",
        "Date of onset": f"{n + 1:02}/02/2020", "Name of hospital admitted": "PMH",
        "Hospitalised/Discharged/Deceased": "Discharged", "HK/Non-HK resident": "HK resident",
        "Case classification*": "Imported", "Confirmed/probable": "Confirmed",
    },
    "mil.nga.msi.asam": lambda n: {
        "dateofocc": date(2021, 3, n + 1), "reference": f"2021-{n}",
        **{name: f"{name} {n}" for name in (
            "subreg", "hostility_", "victim_d", "descriptio", "hostilityt", "hostilit_D",
            "victim_l", "victim_l_D", "navarea",
        )},
    },
    "net.rocketpool.reth.mint-burn": lambda n: {
        "eventTime": 1_650_000_000 + n, "eventName": "TokensMinted", "amount": f"{10**18 * n}",
        "ethAmount": f"{10**17 * n}", "blockNumber": n, "blockHash": f"0x{n:064x}",
        "transactionIndex": 1, "transactionHash": f"0x{n + 100:064x}", "logIndex": 2,
    },
    "ph.gov.covid-19": lambda n: {
        "Case #": f"{n}", "Tested Positive": f"March {n + 1}", "Sex": "F", "Age": f"{n + 30}",
        "Onset of Symptoms": f"February {n + 1}", "Nationality": "PH", "Status": "Recovered",
    },
}  # fmt: skip
"""A row of each source without `read.schema`, by its number."""
NOT_RUN = {
    "ca.vancouver.opendata.rapid-transit.lines": "ST_Transform is a function of Apache Sedona",
    "ca.vancouver.opendata.schools": "ST_GeomFromGeoJSON is a function of Apache Sedona",
    "ca.vancouver.opendata.zoning-districts": "ST_Transform is a function of Apache Sedona",
}
"""Sources that need no network and cannot be read, each with its reason."""


@dataclass(frozen=True, slots=True)
class Source:
    """A definition whose source is a file here, and the rows of that file as they are read."""

    name: str
    engine: str | None
    queries: tuple[tuple[str | None, str], ...]
    rows: tuple[Mapping[str, Any], ...]


def lay_out_sources(folder: Path, form: Path) -> Iterator[Source]:
    """Write the definitions of a folder whose sources need no network, and files for them."""
    (folder / "data").mkdir(parents=True)
    for number, path in enumerate(sorted(form.rglob("*.yaml"))):
        for each in yaml.safe_load_all(path.read_text("utf-8")):
            if each is None or not (found := _polling(each["content"])):
                continue
            name, read = each["content"]["name"], found["read"]
            if found["fetch"]["kind"] == "EthereumLogs" or name in NOT_RUN:
                continue
            rows = tuple(_rows(name, read))
            file = folder / "data" / f"{number}{_suffix(read)}"
            file.write_bytes(_bytes(read, rows, folder / f"shape-{number}"))
            found["fetch"] = {"kind": "FilesGlob", "path": f"data/{file.name}"}
            found.pop("prepare", None)
            place = folder / "datasets" / f"{number}.yaml"
            place.parent.mkdir(exist_ok=True)
            place.write_text(yaml.safe_dump(each, sort_keys=False), "utf-8")
            step = found.get("preprocess") or {}
            steps = step.get("queries") or ([step] if "query" in step else ())
            queries = tuple((one.get("alias"), one["query"]) for one in steps)
            yield Source(name, step.get("engine"), queries, rows)


def _polling(content: Mapping[str, Any]) -> dict[str, Any] | None:
    events = content["metadata"]
    return next((each for each in events if each["kind"] == "SetPollingSource"), None)


def _rows(name: str, read: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for number in range(ROWS):
        if "schema" not in read:
            yield COLUMNS[name](number)
        else:
            yield {column: _value(kind, number, column) for column, kind in _fields(read["schema"])}


def _fields(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, Mapping):
        yield from ((each["name"], each["type"]) for each in schema["fields"])
        return
    for line in map(str.strip, schema):
        quote = line[0] if line[0] in '`"' else " "
        name, _, kind = line.lstrip('`"').partition(quote)
        kind = re.sub("not null", "", kind, flags=re.IGNORECASE).strip()
        found = _LIST.match(kind)
        yield name, {"kind": "List", "itemType": found[1]} if found else kind


def _value(kind: Any, number: int, column: str) -> Any:
    if isinstance(kind, Mapping) and kind["kind"] == "Option":
        return None if number % 3 == 2 else _value(kind["inner"], number, column)
    if isinstance(kind, Mapping) and kind["kind"] == "List":
        return [_value(kind["itemType"], number, column)]
    word = (kind["kind"] if isinstance(kind, Mapping) else kind).lower().partition("(")[0]
    match word:
        case "string" if column == "predictions":
            return json.dumps({"predictedClass": "Up", "predictedProbability": 60 + number})
        case "string":
            return f"{column} {number}"
        case "int64" | "int32" | "bigint" | "int":
            return 1_650_000_000 + number if "time" in column.lower() else number
        case "float64" | "float32" | "double" | "float":
            return number + 0.5
        case "decimal":
            return Decimal(f"{number}.25")
        case "bool" | "boolean":
            return number % 2 == 0
        case "date":
            return date(2021, 3, number + 1)
        case "timestamp":
            return datetime(2021, 3, number + 1, 10, tzinfo=UTC)
    raise ValueError(f"{column}: {kind}")


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _suffix(read: Mapping[str, Any]) -> str:
    return {"Csv": ".csv", "EsriShapefile": ".zip"}.get(read["kind"], ".json")


def _bytes(read: Mapping[str, Any], rows: tuple[Mapping[str, Any], ...], folder: Path) -> bytes:
    match read["kind"]:
        case "Csv":
            out = io.StringIO()
            separator = read.get("separator", ",").replace("\\t", "\t")
            table = csv.writer(out, delimiter=separator, lineterminator="\n")
            if read.get("header"):
                table.writerow(rows[0])
            table.writerows(["" if v is None else _text(v) for v in row.values()] for row in rows)
            return out.getvalue().encode()
        case "EsriShapefile":
            table_of = {name: [row[name] for row in rows] for name in rows[0]}
            files = parts(folder, table_of, [_TRIANGLE] * len(rows), kind="Polygon")
            stem = read.get("subPath", "made.*").removesuffix(".*")
            return zipped({f"{stem}{suffix}": data for suffix, data in files.items()})
        case "NdJson":
            return "".join(f"{json.dumps(row, default=_text)}\n" for row in rows).encode()
        case "Json":
            found: Any = rows
            for key in reversed(read["subPath"].split(".") if "subPath" in read else []):
                found = {key: found}
            return json.dumps(found, default=_text).encode()
    point = {"type": "Point", "coordinates": [1.0, 2.0]}
    features = [{"type": "Feature", "properties": row, "geometry": point} for row in rows]
    if read["kind"] == "NdGeoJson":
        return "".join(f"{json.dumps(each, default=_text)}\n" for each in features).encode()
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()
