"""Records, events and facts of the machine in, the files of a session out; and those files in, records out."""
