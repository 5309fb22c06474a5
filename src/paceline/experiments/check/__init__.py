"""A base and a head of one repository in, measured in turns on this machine; whether the head lost anything out."""
