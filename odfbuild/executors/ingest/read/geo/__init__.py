"""Geometries and the formats that carry them."""
