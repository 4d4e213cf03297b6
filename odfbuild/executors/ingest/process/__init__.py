"""Programs of sources, with limits and without access to the machine."""
