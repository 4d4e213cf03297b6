"""Commands that check definitions and datasets."""
