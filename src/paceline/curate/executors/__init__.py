"""Ways to run a pipeline; each is imported when it is used."""
