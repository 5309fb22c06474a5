"""Benchmarks of every shape that asv has."""
