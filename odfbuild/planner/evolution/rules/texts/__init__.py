"""The words of the numbered rules."""
