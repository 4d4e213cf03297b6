"""What a query means to an incremental step: its class, keys, sums, order and findings."""
