"""Mistakes that users make, and what they are answered."""
