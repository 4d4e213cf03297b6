"""What is remembered beside the chains, to be asked again at any time."""
