"""Commands for the engine, keys, refs and disk space."""
