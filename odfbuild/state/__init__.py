"""Storage: objects, heads, keys, the index, and the only code that writes chains."""
