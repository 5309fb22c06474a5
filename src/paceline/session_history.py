"""A session's records into the history, once it is over: the files are the truth, the history follows them."""

from pathlib import Path

from paceline.errors import PacelineError
from paceline.history.urls import check_driver, find_url, parse_target


def choose_database(asked: str | None, configured: str | None, *, enabled: bool) -> str | None:
    """The database to record into, None for none; one that could never be used is an error before anything runs."""
    if not enabled:
        return None
    url = find_url(asked, configured)
    check_driver(parse_target(url))
    return url


def remember(session_dir: Path, place: Path | str, url: str) -> str:
    """Record what the session's files hold; why that was not possible and what to do, or an empty text.

    A database that is down or locked costs a session nothing: its files stay, and can be imported at any time.
    """
    from paceline.history import open_store  # a quarter of a second, which no case has to wait for
    from paceline.history.database import driver_errors
    from paceline.history.session_files import read_session

    expected: tuple[type[Exception], ...] = (PacelineError, OSError, *driver_errors())
    try:
        session, environment, records = read_session(session_dir, str(place))
        with open_store(url) as store:
            store.add(session, environment, records)
    except expected as error:
        later = f"'paceline history import {place}' adds the session later"
        return f"not recorded in the history: {str(error).splitlines()[0]}; {later}"
    return ""
