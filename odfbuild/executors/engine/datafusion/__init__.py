"""The DataFusion engine, and the only place that imports DataFusion: queries in this process."""
