"""What `schemas/generate.py` is made of."""
