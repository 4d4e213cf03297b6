"""The input rows that an output row was made of."""
