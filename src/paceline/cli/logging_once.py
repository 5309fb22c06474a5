"""A record is read once for each part of a report; what is wrong with its file is said once."""

import logging


class _Once(logging.Filter):
    """Lets each message pass the first time."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        is_new = message not in self._seen
        self._seen.add(message)
        return is_new


_once = _Once()


def log_once() -> None:
    """Keep the warnings about unreadable records from being repeated by one command."""
    logging.getLogger("paceline.record.codec").addFilter(_once)  # adding it again changes nothing
