"""The language that selects datasets, as in dbt.  Pure."""
