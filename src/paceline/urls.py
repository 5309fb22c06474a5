"""Addresses of services: a name and password in one are for the service, and for nobody who reads the address."""

from base64 import b64encode
from urllib.parse import unquote, urlsplit, urlunsplit


def split_login(url: str) -> tuple[str, dict[str, str]]:
    """`http://me:pw@host/in` as `http://host/in` and the header of basic authentication; no header without a name."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    name, _, password = login.partition(":")
    pair = b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {pair}"}
