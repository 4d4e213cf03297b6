"""Blocks as bytes: FlatBuffers as the reference writes them."""
