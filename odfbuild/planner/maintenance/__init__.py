"""Plans of resets, compactions, rebuilds and undos."""
