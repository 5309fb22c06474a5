"""Cases in, records out, by an executor: `local` for this machine, `ray` for a cluster or a pool of machines."""
