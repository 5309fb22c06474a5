"""Suites that were written for airspeed velocity (asv), run as they are.

All of it runs in a process of the suite's own Python and needs nothing but the standard library: `suite` finds the
benchmarks, `measure` runs one as asv does, `child` is what that process is started with.
"""
