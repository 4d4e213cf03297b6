"""Rows as files and frames: slices in Parquet, changelogs, checkpoints, comparison of rows."""
