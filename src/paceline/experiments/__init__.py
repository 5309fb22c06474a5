"""Suites run again and again in changed settings, to find out what a change does."""
