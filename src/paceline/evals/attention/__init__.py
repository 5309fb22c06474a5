"""Sparse attentions carried out with torch; which keys each rule keeps is in `maskers` and beside it."""
