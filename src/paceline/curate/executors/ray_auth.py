"""Tokens of Ray clusters, as this process sees them.

Ray keeps the first token it reads for the life of a process, in its C++ part, and so the mode of authentication. A
process that meets several clusters must make it forget, or it knocks at the second with the first one's token.
"""

import secrets
import sys
from importlib import import_module
from pathlib import Path


def token_environment(home: Path, mode: str) -> dict[str, str]:
    """A new token in `home`, and the variables that lead to it; nothing where authentication is off."""
    if mode != "token":
        return {}
    token = home / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}


def forget_token() -> None:
    """Have Ray read mode and token again from the environment when they are next needed."""
    if "ray" not in sys.modules:
        return
    core = import_module("ray._raylet")
    if hasattr(core, "AuthenticationTokenLoader"):
        # The mode first: else a thread that is still at work asks for a token that is gone, which ends the process.
        core.Config.initialize("")
        core.AuthenticationTokenLoader.instance().reset_cache()
