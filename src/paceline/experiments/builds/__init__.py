"""A revision or a list of packages in, a tree and an environment to run it in out; each is built once."""
