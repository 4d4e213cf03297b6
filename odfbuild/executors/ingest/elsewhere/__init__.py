"""Files of sources that are read and merged elsewhere: where, what is sent and what comes back.

They are fetched, decompressed and piped through commands here, and their rows are committed here.
"""
