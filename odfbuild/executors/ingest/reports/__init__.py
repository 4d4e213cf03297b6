"""Reports on the rows that an input adds: keys that are there twice or recorded, missing times."""
