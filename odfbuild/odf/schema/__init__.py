"""Types and columns of data: DDL, Arrow, growth by new columns."""
