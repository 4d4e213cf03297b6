"""Commands that change datasets."""
