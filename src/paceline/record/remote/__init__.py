"""A session in a local directory in, its copy in an object store out; and back when it goes on elsewhere."""
