"""The Spark engine, and the only place that imports PySpark."""
