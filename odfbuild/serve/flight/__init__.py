"""FlightSQL: datasets and questions over Arrow Flight, as ADBC, JDBC and ODBC drivers ask them.

`server` listens and holds callers to the limits, `calls` answers each; `messages` are those of the
protocol, `statement` is what a ticket says, `listings` are tables of datasets and facts.
"""
