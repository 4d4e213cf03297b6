"""Placement of work in Spark: within its own process here, or on the workers of a cluster.

`providers` says where sessions come from, `properties` what the user's own file adds; `executors`
admits those of a cluster, by the `probe`, and watches them; `spread` has tasks of Python run there.
`driver` has the calls that PySpark has no public form for, `remote` the same for sessions of a
server, which `connect` opens.
"""
