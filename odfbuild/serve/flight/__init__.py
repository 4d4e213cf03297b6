"""FlightSQL: datasets and questions over Arrow Flight, for ADBC, JDBC and ODBC drivers.

`server` listens and enforces the limits, `calls` answers each call; `messages` are those of the
protocol, `statement` is the content of a ticket, `listings` are tables of datasets and facts.
"""
