"""What SQL texts say before any engine runs: shapes, columns, types, classes.  Pure."""
