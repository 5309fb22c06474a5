"""What a session that goes on need not run again."""

from paceline.model import Case, Record


def is_kept(record: Record | None, case: Case, *, rerun_failed: bool) -> bool:
    """Whether a case finished with the same fingerprint, and passed if failures are to be run again."""
    if record is None or record.case.fingerprint != case.fingerprint:
        return False
    return record.status.ok or (record.status.finished and not rerun_failed)
