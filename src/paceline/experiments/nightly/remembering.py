"""What a night confirmed, kept in the history: so the next night knows of it, whatever its own values look like."""

from paceline.experiments.nightly.suspected import Suspected
from paceline.findings.commits import Repository
from paceline.findings.suspects import Suspect, commit_suspects, environment_suspects
from paceline.history import Store
from paceline.history.findings import StoredFinding, write_findings
from paceline.model import Finding

WHO = "paceline nightly"


def remember_confirmed(
    store: Store, repository: Repository | None, suspected: Suspected, told: Finding
) -> None:
    """Keep a suspicion that was confirmed as a finding, and what was found out in the words said about it."""
    known = suspected.finding
    if known is None:
        known = _stored(suspected, told, _causes(store, repository, suspected))
        with store.database.writing():
            write_findings(store.database, [known])
    if known.said is None or known.said.why != told.message:
        store.say(known.id, "new", why=told.message, who=WHO)


def _causes(store: Store, repository: Repository | None, suspected: Suspected) -> tuple[Suspect, ...]:
    good, bad = suspected.good, suspected.bad
    environments = store.environment(good.environment), store.environment(bad.environment)
    return (*commit_suspects(repository, good, bad), *environment_suspects(*environments))


def _stored(suspected: Suspected, told: Finding, causes: tuple[Suspect, ...]) -> StoredFinding:
    at = suspected.at
    effect = suspected.effect if told.effect is None else told.effect
    return StoredFinding(
        id=suspected.id,
        series=suspected.series,
        epoch=suspected.epoch,
        verdict="worse",
        effect=effect,
        low=effect if told.low is None else told.low,
        high=effect if told.high is None else told.high,
        p_value=suspected.chance,
        last_good=suspected.good,
        first_bad=suspected.bad,
        at_record=at.record_id,
        at_time=at.time,
        found_at=suspected.bad.time,
        found_in=suspected.bad.session,
        suspects=causes,
    )
