"""What programs read of plans and of problems: one module a format, all pure."""
