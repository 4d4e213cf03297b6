"""What tests share: projects, servers, processes, drawn values, oracles, data."""
