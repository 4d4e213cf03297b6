"""Work on datasets that exist: resets, compactions, rebuilds, restorations, disk space."""
