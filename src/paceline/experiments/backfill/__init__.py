"""A range of revisions in, a session of the suite at each of them out; what is measured already is not run again."""
