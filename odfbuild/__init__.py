"""Dataset-as-code: plan and build Open Data Fabric datasets with Spark."""

__all__ = ["__version__"]

__version__ = "0.1.0"
