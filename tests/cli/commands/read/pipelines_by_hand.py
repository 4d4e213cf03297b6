"""What the definitions of the example projects say, read by hand: inputs, columns, rows.

A column is written `input.column`, by the name that the query has for the input.  A root has no
inputs; its columns are those that it stores, the event time first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.projects import EXAMPLES, REPOSITORY

__all__ = ["PIPELINES", "Made", "Pipeline"]


@dataclass(frozen=True)
class Made:
    """A dataset: its inputs by alias, what its columns are made of, what decides on its rows."""

    columns: Mapping[str, str]
    inputs: Mapping[str, str]
    rows: str = ""

    def sources(self, text: str) -> set[tuple[str, str]]:
        """Return the columns that a text names, with their datasets."""
        named = (each.split(".") for each in text.split())
        return {(self.inputs[alias], column) for alias, column in named}


@dataclass(frozen=True)
class Pipeline:
    """A project and its datasets."""

    folder: Path
    datasets: Mapping[str, Made]


def root(columns: str) -> Made:
    return Made(dict.fromkeys(columns.split(), ""), {})


WATER = {
    "water.levels": root("time station level_cm flow_m3s"),
    "water.stations": root("event_time station river warn_cm sensors"),
    "water.high-water": Made(
        {
            "time": "levels.time",
            "station": "levels.station",
            "level_cm": "levels.level_cm",
            "state": "levels.level_cm",
        },
        {"levels": "water.levels"},
        rows="levels.level_cm",
    ),
    "water.measurements": Made(
        {
            "time": "readings.time",
            "station": "readings.station",
            "quantity": "",
            "value": "readings.level_cm readings.flow_m3s",
            "unit": "",
        },
        {"readings": "water.levels"},
        rows="readings.level_cm readings.flow_m3s",
    ),
    "water.peaks": Made(
        {
            "time": "levels.time",
            "station": "levels.station",
            "highest_cm": "levels.level_cm",
            "readings": "levels.level_cm",
        },
        {"levels": "water.levels"},
        rows="levels.station",
    ),
    "water.sensors": Made(
        {
            "event_time": "stations.event_time",
            "station": "stations.station",
            "river": "stations.river",
            "sensor": "stations.sensors",
        },
        {"stations": "water.stations"},
        rows="stations.sensors",  # a row for each that is in it
    ),
}
AIRLINE = "event_time airline_id name alias iata icao callsign country active"
ITALY = {
    "it.covid.national": root(
        "data stato ricoverati_con_sintomi terapia_intensiva totale_ospedalizzati"
        " isolamento_domiciliare totale_positivi variazione_totale_positivi nuovi_positivi"
        " dimessi_guariti deceduti casi_da_sospetto_diagnostico casi_da_screening totale_casi"
        " tamponi casi_testati note note_en ingressi_terapia_intensiva note_test note_casi"
    ),
    "it.covid.regions": root(
        "event_time data stato codice_regione denominazione_regione lat long"
        " ricoverati_con_sintomi terapia_intensiva totale_ospedalizzati isolamento_domiciliare"
        " totale_positivi variazione_totale_positivi dimessi_guariti deceduti totale_casi tamponi"
    ),
    "it.covid.hospital-load": Made(
        {
            "data": "national.data",
            "terapia_intensiva": "national.terapia_intensiva",
            "totale_ospedalizzati": "national.totale_ospedalizzati",
            "load": "national.terapia_intensiva",
        },
        {"national": "it.covid.national"},
        rows="national.terapia_intensiva",
    ),
    "it.covid.positives": Made(
        {
            "data": "national.data regions.data",
            "area": "regions.denominazione_regione",
            "totale_positivi": "national.totale_positivi regions.totale_positivi",
            "totale_casi": "national.totale_casi regions.totale_casi",
        },
        {"national": "it.covid.national", "regions": "it.covid.regions"},
        rows="regions.data",
    ),
    "org.openflights.airlines": root(AIRLINE),
    "org.openflights.airlines.repaired": root(AIRLINE),
    "org.openflights.airline-codes": Made(
        {
            "event_time": "airlines.event_time",
            "airline_id": "airlines.airline_id",
            "name": "airlines.name",
            "code": "airlines.iata airlines.icao",
        },
        {"airlines": "org.openflights.airlines"},
        rows="airlines.active airlines.iata airlines.icao",
    ),
}
SHOP = {
    "shop.raw.orders": root("ordered_at order_id customer total"),
    "shop.raw.returns": root("returned_at return_id order_id refund"),
    "shop.orders": Made(
        {
            "ordered_at": "raw.ordered_at",
            "order_id": "raw.order_id",
            "customer": "raw.customer",
            "total": "raw.total",
        },
        {"raw": "shop.raw.orders"},
        rows="raw.total",
    ),
    "shop.payments": Made(
        {
            "paid_at": "orders.ordered_at returns.returned_at",
            "order_id": "orders.order_id returns.order_id",
            "amount": "orders.total returns.refund",
        },
        {"orders": "shop.orders", "returns": "shop.raw.returns"},
    ),
}
PIPELINES = {
    "water": Pipeline(EXAMPLES / "water-levels", WATER),
    "italy": Pipeline(EXAMPLES / "italy-covid", ITALY),
    "shop": Pipeline(REPOSITORY / "project_template" / "etl", SHOP),
}
