"""Files of tests: what they say, as plain values.  The running is in `executors.testing`."""
