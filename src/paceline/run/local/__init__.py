"""A command in, its exit and what its process tree used out; nothing it started is left behind."""
