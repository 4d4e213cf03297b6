"""Commands that write and show definitions."""
