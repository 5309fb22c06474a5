"""From the history's series to findings: what changed, when, how sure, and what may have caused it."""
