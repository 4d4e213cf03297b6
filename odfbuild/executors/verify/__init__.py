"""Checks of chains and files, replays, and recomputation in full."""
