"""What kind of change a finding is, how far it was followed up, and the culprit that a bisection found.

A night wrote what it had found out among the words of people; that becomes the finding's stage.
"""

import json
import re

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_WHO = "paceline nightly"
_FOUND = re.compile(
    r"(?P<kind>Commit|Version|Removal) (?P<name>.+?) \((?P<subject>.+)\) changed .+: "
    r"(?P<bound>[<>] )?(?P<percent>[0-9.]+) % sure after (?P<runs>[0-9]+) runs\."
)


def upgrade() -> None:
    op.add_column("finding", sa.Column("kind", sa.Text, nullable=False, server_default="step"))
    op.add_column("finding", sa.Column("stage", sa.Text, nullable=False, server_default="suspected"))
    op.add_column("finding", sa.Column("culprit", sa.Text))
    connection = op.get_bind()
    words = sa.text(
        "SELECT finding_ident, why FROM human_verdict WHERE who = :who AND state = 'new' ORDER BY at"
    )
    for ident, why in connection.execute(words, {"who": _WHO}).fetchall():
        found = _FOUND.match(why)
        stage, culprit = ("bisected", json.dumps(_culprit(found))) if found else ("confirmed", None)
        connection.execute(
            sa.text("UPDATE finding SET stage = :stage, culprit = :culprit WHERE ident = :ident"),
            {"stage": stage, "culprit": culprit, "ident": ident},
        )
    connection.execute(sa.text("DELETE FROM human_verdict WHERE who = :who AND state = 'new'"), {"who": _WHO})


def _culprit(found: "re.Match[str]") -> dict[str, object]:
    kind = found["kind"].lower()
    return {
        "kind": kind,
        "revision" if kind == "commit" else "name": found["name"],
        "subject": found["subject"],
        "probability": float(found["percent"]) / 100,
        "runs": int(found["runs"]),
    }
