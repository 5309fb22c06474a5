"""Errors quote the configuration, and what they quote may be a secret."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from paceline.errors import ConfigError, PacelineError


@contextmanager
def masked_errors(configs: Sequence[Path]) -> Iterator[None]:
    """Mask also the values of the variables that these files name under `secrets`."""
    try:
        yield
    except PacelineError as error:
        from paceline.cli.suite_names import secrets_in  # reads YAML, for which an error has the time

        shown = masked(error, secrets_in(configs))
        if shown is error:
            raise
        raise shown from error


def masked(error: PacelineError, secret_names: Sequence[str] = ()) -> PacelineError:
    """The error without the values of these variables and of those whose names tell that they are secret."""
    from paceline.record.redact import Redactor, secret_values

    mask = Redactor(secret_values(os.environ, secret_names)).text
    if mask(str(error)) == str(error):
        return error
    if not isinstance(error, ConfigError):
        return PacelineError(mask(str(error)))
    return ConfigError(
        [
            replace(one, file=mask(one.file), path=mask(one.path), message=mask(one.message))
            for one in error.problems
        ]
    )
