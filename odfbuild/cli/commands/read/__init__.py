"""Commands that read rows, chains and lineage."""
