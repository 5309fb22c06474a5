"""A/B tests: the same suite in two or more settings, interleaved until the difference is known or the budget spent."""
