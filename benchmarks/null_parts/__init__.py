"""The parts of null_rates.py."""
