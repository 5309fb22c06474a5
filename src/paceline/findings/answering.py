"""What somebody says about findings, on the command line or on the page: stored, and read from then on."""

from collections.abc import Sequence

from paceline.errors import PacelineError
from paceline.finding import Finding, State
from paceline.history import Store

NEED_A_REASON = ("expected", "false")


def answer(store: Store, ids: Sequence[str], state: State, *, why: str, who: str) -> list[Finding]:
    """Store a word about findings; an incident's id means all of its findings."""
    if state in NEED_A_REASON and not why.strip():
        raise PacelineError(f"say why it is {state}: others will ask")
    known = store.findings()
    members = [[one.id for one in known if one.incident == ident] or [ident] for ident in ids]
    return [store.say(ident, state, why=why, who=who) for several in members for ident in several]
