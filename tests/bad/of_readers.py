"""Files that are not what their read step says, for every reader."""

import json
from typing import Any

from tests.bad.case import GOOD, Bad, flow, zipped

__all__ = ["CSV_FILES", "GEO_FILES", "JSON_FILES"]

CORRECT = "correct the file"


def row(text: bytes | str, says: str, fix: str = CORRECT, **more: Any) -> Bad:
    """Return a second file for the CSV source of two columns."""
    return Bad(code="invalid-source", good=GOOD, data=text, says=says, fix=fix, **more)


def cell(ddl: str, text: str, says: str) -> Bad:
    """Return a file whose third line has a value that is not of the column's type."""
    read = flow("Csv", "k STRING", f"v {ddl}", header="true")
    data = f"k,v\na,\nb,{text}\n"
    return Bad(
        code="invalid-source",
        read=read,
        good="k,v\na,\n",
        data=data,
        says=f"data/2:3: column v: {text!r} is not {says}",
        fix="declare the column as STRING",
    )


def option(says: str, fix: str, **options: str) -> Bad:
    """Return a read step that asks for what there is not."""
    was = flow("Csv", "k STRING", "v DATE", header="true")
    read = flow("Csv", "k STRING", "v DATE", header="true", **options)
    return Bad(code="unsupported-read", was=was, read=read, data="k,v\n", says=says, fix=fix)


CSV_FILES = {
    "a CSV row with a field too many": row("k,v\nc,3,4\n", "data/2:2: 3 fields instead of 2"),
    "a CSV row with a field too few": row("k,v\nc,3\nd\n", "data/2:3: 1 field instead of 2"),
    "a CSV quote that is never closed": row('k,v\n"c,3\n', "data/2:2: a quoted value"),
    "a CSV header that names a column twice": row(
        "k,k,v\nc,d,3\n", "the header names 'k' 2 times", "rename the columns"
    ),
    "a CSV file of another separator": row("k;v\nc;3\n", "1 column in the file", "separator: ';'"),
    "a CSV file of more columns than the schema": row(
        "a,b,c\n1,2,3\n", "3 columns in the file, 2 in the schema", "correct the names"
    ),
    "a CSV file in Latin-1": row(b"k,v\n\xe9,3\n", "bytes that are not UTF-8", "encoding"),
    "a CSV file in UTF-16": row("k,v\nc,3\n".encode("utf-16"), "data/2 is UTF-16", "encoding"),
    "a gzip file for CSV": row(b"\x1f\x8b\x08\0\0\0\0\0", "data/2 is a gzip file", "Decompress"),
    "a zip file for CSV": row(zipped(["a.csv"]), "data/2 is a zip file", "Decompress"),
    "a Parquet file for CSV": row(b"PAR1\0\0\0\0PAR1", "data/2 is a Parquet file", "Parquet"),
    "a page for CSV": row("<!DOCTYPE html>\n<html>", "data/2 is an HTML page", "fetch.url"),
    "many bad CSV rows": row(
        "k,v\n" + "c,x\n" * 300, "data/2 has 100 or more problems, the first 5 are:"
    ),
    "a CSV integer that is a word": cell("INT", "many", "an integer"),
    "a CSV integer that is too large": cell("INT", "2147483648", "an integer from -2147483648"),
    "a CSV number that is none": cell("DOUBLE", "1.2.3", "a number"),
    "a CSV decimal with too many digits": cell("DECIMAL(5,2)", "12345.6", "a decimal number"),
    "a CSV truth that is a number": cell("BOOLEAN", "1", "true or false"),
    "a CSV day that there is not": cell("DATE", "2023-02-29", "a date of the form YYYY-MM-DD"),
    "a CSV time in another form": cell("TIMESTAMP", "1.1.2024 12:00", "a time of the form"),
    "a CSV cell that must have a value": Bad(
        code="invalid-source",
        read=flow("Csv", "k STRING NOT NULL", "v INT", header="true"),
        good=GOOD,
        data="k,v\nc,3\n,4\n",
        says="data/2:3: column k: no value, but the column is required",
        fix="make the column optional",
    ),
    "a CSV header without a required column": Bad(
        code="invalid-source",
        read=flow("Csv", "k STRING NOT NULL", "v INT", header="true"),
        good=GOOD,
        data="v\n3\n",
        says="the header lacks the required column k",
        fix="correct the name",
    ),
    "a CSV file that is not in the declared encoding": Bad(
        code="invalid-source",
        read=flow("Csv", "k STRING", "v INT", header="true", encoding="ascii"),
        good=GOOD,
        data=b"k,v\nc,3\n\xe9,4\n",
        says="bytes that are not ascii",
        fix="encoding",
    ),
    "a CSV separator of two characters": option("`separator: '||'`", "one", separator="'||'"),
    "a CSV quote of two characters": option("`quote: 'ab'`", "one", quote="ab"),
    "a CSV encoding that nobody knows": option("klingon", "", encoding="klingon"),
    "a CSV date format that nobody knows": option("%Q", "", dateFormat="'%Q'"),
}


def document(text: bytes | str, says: str, fix: str = CORRECT, **options: str) -> Bad:
    """Return a second file for a Json source of two columns."""
    good = '{"a": {"b": [{"k": "a", "v": 1}]}}' if options else '[{"k": "a", "v": 1}]'
    read = flow("Json", "k STRING", "v INT", **options)
    return Bad(code="invalid-source", read=read, good=good, data=text, says=says, fix=fix)


def line(text: bytes | str, says: str, fix: str = CORRECT) -> Bad:
    """Return a second file for a NdJson source of two columns."""
    read = flow("NdJson", "k STRING", "v INT")
    return Bad(code="invalid-source", read=read, good="{}\n", data=text, says=says, fix=fix)


JSON_FILES = {
    "a JSON document that is no array": document(
        '{"k": "a"}', "data/2:1: the document is not an array", "subPath"
    ),
    "a JSON document that was cut off": document('[{"k": "a"},\n{"k"', "data/2:2: not JSON"),
    "a JSON document with more behind it": document("[] []", "not JSON at character 4"),
    "a JSON record that is a number": document(
        "[\n5]", "data/2:2: the number 5 is not an object", "subPath"
    ),
    "a JSON value of another type": document(
        '[\n{"v": "many"}]', "data/2:2: column v: the text 'many' is not an integer", "STRING"
    ),
    "a JSON integer that is too large": document(
        '[{"v": 9999999999}]', "the number 9999999999 is not an integer", "that its values have"
    ),
    "a JSON text that is half a character": document(r'[{"k": "\ud83d"}]', "a surrogate pair", ""),
    "a JSON document that is not UTF-8": document(b'[{"k":\n"\xe9"}]', "not UTF-8", "encoding"),
    "a JSON document that is nested without end": document("[" * 100_000, "not JSON"),
    "a JSON path that leads nowhere": document(
        '{"a": {}}', "a.b does not exist", "", subPath="a.b"
    ),
    "a JSON path through null": document('{"a": null}', "a is not an object", "", subPath="a.b"),
    "a JSON path to no array": document('{"a": {"b": 5}}', "is not an array", "", subPath="a.b"),
    "a page for JSON": document("<html><body>", "data/2 is an HTML page", "fetch.url"),
    "a gzip file for JSON": document(b"\x1f\x8b\x08\0", "data/2 is a gzip file", "Decompress"),
    "a JSON line that was cut off": line('{"v": 1}\n{"v": ', "data/2:2: not JSON"),
    "two JSON objects in a line": line('{"v": 1} {"v": 2}\n', "data/2:1: not JSON: Extra data"),
    "a JSON line that is null": line("{}\nnull\n", "data/2:2: null is not an object"),
    "a JSON array for lines": line('[\n{"v": 1}\n]\n', "data/2:1:", "kind: Json"),
    "a JSON line of another type": line(
        '{"v": true}\n', "data/2:1: column v: true is not", "that its values have"
    ),
    "a JSON line that is not UTF-8": line(b'{}\n{"k": "\xff"}\n', "data/2:2: byte", "encoding"),
    "a JSON line without a required value": Bad(
        code="invalid-source",
        read=flow("NdJson", "k STRING", "v INT NOT NULL"),
        good='{"v": 1}\n',
        data="{}\n",
        says="data/2:1: column v: no value, but the column is required",
        fix="make the column optional",
    ),
    "a JSON line with a bad value deep inside": Bad(
        code="invalid-source",
        read=flow("NdJson", "v STRUCT<a: ARRAY<DATE>>"),
        data='{"v": {"a": [1]}}\n',
        says="data/2:1: column v.a[]: the number 1 is not a date",
        fix="declare the column with the type that its values have",
    ),
    "JSON lines that disagree about a type": Bad(
        code="invalid-source",
        read="{kind: NdJson}",
        good='{"k": "a"}\n',
        data='{"k": 1}\n{"k": "x"}\n',
        says="data/2:1: column k: the number 1 is not text",
        fix="a Pipe in `prepare` can make several kinds of values one",
    ),
}

POINT = {"type": "Point", "coordinates": [1.0, 2.0]}


def feature(properties: Any = None, geometry: Any = None) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties or {}, "geometry": geometry or POINT}


def collection(*features: Any) -> str:
    lines = ",\n".join(json.dumps(each) for each in features)
    return f'{{"type": "FeatureCollection", "features": [\n{lines}]}}'


def geo(text: bytes | str, says: str, fix: str = "") -> Bad:
    read = flow("GeoJson", "v INT", "geometry STRING NOT NULL")
    good = collection(feature({"v": 1}))
    return Bad(code="invalid-source", read=read, good=good, data=text, says=says, fix=fix)


def nd_geo(text: bytes | str, says: str, fix: str = "") -> Bad:
    read = flow("NdGeoJson", "v INT", "geometry STRING NOT NULL")
    good = json.dumps(feature({"v": 1}))
    return Bad(code="invalid-source", read=read, good=good, data=text, says=says, fix=fix)


GEO_FILES = {
    "a GeoJSON document that is no collection": geo(json.dumps(feature()), "FeatureCollection"),
    "a GeoJSON document that was cut off": geo(collection(feature())[:-20], "not JSON"),
    "a GeoJSON feature that is none": geo(collection(feature(), {}), "`type` is missing"),
    "GeoJSON properties that are a list": geo(collection(feature([1])), "properties"),
    "a GeoJSON geometry that is a text": geo(collection(feature({}, "POINT(1 2)")), "geometry"),
    "a GeoJSON feature without geometry": geo(
        collection(feature(), {**feature(), "geometry": None}), "column geometry: no value"
    ),
    "a GeoJSON property of another type": geo(
        collection(feature(), feature({"v": "many"})), "data/2:3: column v: the text 'many'"
    ),
    "GeoJSON positions that are no numbers": geo(
        collection(feature()).replace("1.0", "1e999"), "a number beyond the range of numbers"
    ),
    "a shapefile for GeoJSON": geo(zipped(["a.shp"]), "data/2 is a zip file"),
    "a GeoJSON line that was cut off": nd_geo(json.dumps(feature()) + "\n{", "data/2:2: not JSON"),
    "a GeoJSON collection for lines": nd_geo(collection(feature()).replace("\n", ""), "Feature"),
    "a GeoJSON line that is no feature": nd_geo("{}\n", "data/2:1: `type` is missing"),
    "a GeoJSON line that is a list": nd_geo("[]\n", "data/2:1: an array"),
    "a GeoJSON line of another type": nd_geo(
        json.dumps(feature({"v": 1.5})), "data/2:1: column v: the number 1.5 is not an integer"
    ),
    "a GeoJSON line that is not UTF-8": nd_geo(b"\n\xff", "data/2:2: byte 1 is not UTF-8"),
}
