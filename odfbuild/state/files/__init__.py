"""Files of a workspace: lasting writes, locks, checksums, links."""
