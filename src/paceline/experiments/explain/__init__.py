"""Two sides of a confirmed loss in, where the difference is spent out: each runs once more, under a profiler."""
