"""Object stores: their services, a prefix of one as a client, and what a store supports."""
