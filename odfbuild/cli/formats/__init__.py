"""Machine-readable formats of plans and problems: one module a format, all pure."""
