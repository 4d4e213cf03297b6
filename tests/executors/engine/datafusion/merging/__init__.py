"""Merges in this process: vectors, agreement with Spark, memory."""
