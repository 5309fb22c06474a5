"""A/B tests: the same suite in two or more settings in, in turns, the difference between them out."""
