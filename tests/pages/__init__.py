"""Pages of the documentation: what they show is run, and what is generated is current."""
