"""Commands that say what would change, and why."""
