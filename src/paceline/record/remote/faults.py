"""What the clients of object stores raise, told in a line."""

import sys

from paceline.errors import PacelineError

_REFUSALS = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "409", "412"})


class StoreError(PacelineError):
    """An object store does not answer, or refuses what was asked of it."""


class Conflict(PacelineError):
    """Somebody else wrote an object since it was read."""


def fault_types() -> tuple[type[Exception], ...]:
    """What clients raise when a store is down or says no; looked up among what is loaded, as none is needed here."""
    names = (
        ("botocore.exceptions", "BotoCoreError"),
        ("botocore.exceptions", "ClientError"),
        ("aiohttp", "ClientError"),
    )
    known = (getattr(sys.modules[module], name) for module, name in names if module in sys.modules)
    return (OSError, *known)


def reason(error: Exception) -> str:
    """Why a store did not do what was asked, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    if is_missing_bucket(error):
        return "the bucket does not exist"
    if isinstance(error, PermissionError):
        return f"access denied ({text}): check the credentials in the environment"
    if isinstance(error, TimeoutError):
        return f"no answer in time ({text})"
    return text


def _error_code(error: BaseException) -> str:
    answer = getattr(error.__cause__, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def is_missing_bucket(error: BaseException) -> bool:
    """A bucket that is missing is a mistake; an object that is missing is an answer."""
    return _error_code(error) == "NoSuchBucket"


def is_refusal(error: OSError) -> bool:
    """Whether the condition of a write did not hold."""
    return isinstance(error, FileExistsError) or _error_code(error) in _REFUSALS
