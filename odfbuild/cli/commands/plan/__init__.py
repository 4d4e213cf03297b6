"""Commands that show what would change, and why."""
