"""The Smart Transfer Protocol: its messages, its archives of blocks, and a client of it."""
