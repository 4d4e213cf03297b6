"""Files of a server: where its workspace is, objects that are read, and files that pushes send."""
