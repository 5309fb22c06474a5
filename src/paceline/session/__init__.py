"""A request in, a report out: opens the session, has its cases run, and closes it with history, report and sinks."""
