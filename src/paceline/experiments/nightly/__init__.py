"""A suite in, a night's report out: what got worse is run again, and the commit that did it is searched."""
