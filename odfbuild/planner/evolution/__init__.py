"""What changes mean to those who read a dataset: rules, assessments, the gate.  Pure."""
