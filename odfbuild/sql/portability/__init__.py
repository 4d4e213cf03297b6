"""SQL that Spark and DataFusion read alike: queries that mean the same in both engines."""
