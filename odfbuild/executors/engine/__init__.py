"""What an engine is asked, and how steps are done in Arrow and in Spark."""
