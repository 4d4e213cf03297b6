"""Tests of steps on a server of Spark Connect."""
