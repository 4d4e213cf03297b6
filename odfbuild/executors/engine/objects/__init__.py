"""Files of steps as objects: in a store that machines without a common folder reach."""
