"""Tests of jobs: requests to engines as documents."""
