"""The page of a graph: its layout, its data, and what a browser makes of it."""
