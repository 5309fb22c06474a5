"""Commands and functions in, the time that each takes out: no suite, no file, and a history only if asked for.

A worker that times a function of its own calls `measure(Calls(func, setup=…), Effort(loops=…, rounds=…, warmup=…))`;
`statements.run_worker` starts one in a process of its own, as often as there are to be processes.
"""
