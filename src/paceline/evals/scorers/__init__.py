"""Answers → numbers: the published metrics, as pure functions of texts.

What a published program turns into a zero by catching every exception is an error here, unless a zero is what its
definition gives (an empty answer). Nothing is ever evaluated as code.
"""

from paceline.errors import PacelineError


class ScoreError(PacelineError):
    """A reference that its metric cannot be computed with."""
