"""Static analysis of SQL texts, before any engine runs: shapes, columns, types, classes.  Pure."""
