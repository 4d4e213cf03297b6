"""Forms of clauses and windows that Spark refuses."""
