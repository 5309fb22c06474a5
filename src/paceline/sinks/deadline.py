"""The time that one call of a sink may take; what is not done by then goes on in the next try."""

from time import monotonic

from paceline.sinks import GoOn

_SHARE = 0.6
"""Of the call's time: the rest is for the request that is under way when it has passed."""

_LONGEST_S = 15.0
"""Half of what the end of a session waits for a sink by default."""


class Deadline:
    """Ends a long call before it is ended from outside; whatever was noted on the way is not done again."""

    def __init__(self, timeout_s: float) -> None:
        self._end_s = monotonic() + min(timeout_s * _SHARE, _LONGEST_S)

    def check(self, what: str) -> None:
        """Raise `GoOn` if the time has passed."""
        if monotonic() >= self._end_s:
            raise GoOn(f"{what}: more to send")
