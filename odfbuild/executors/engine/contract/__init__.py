"""The engine contract over gRPC: a server of our engines, and engines elsewhere."""
