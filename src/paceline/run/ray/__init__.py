"""Options or an address in, a Ray cluster out: a private one for an entry, or a pool of machines to run cases on."""
