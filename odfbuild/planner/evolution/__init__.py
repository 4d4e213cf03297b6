"""Effects of changes on the readers of a dataset: rules, assessments, the gate.  Pure."""
