"""What results must be, in a few lines of plain Python: slow, obvious, and written apart."""
