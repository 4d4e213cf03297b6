"""The protocol, pure: values, codec, hashes, chain rules (Open Data Fabric 0.34.1)."""
