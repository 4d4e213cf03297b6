"""Incremental transforms in Spark: an operator for each class of queries."""
