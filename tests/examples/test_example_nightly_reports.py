"""A night of which one case fails: one message in Slack, a run with two children in MLflow's file store."""

import shutil
from pathlib import Path

from fake_slack import FakeSlack
from git_commands import git
from workplace import Workplace

EXAMPLE = Path(__file__).parents[2] / "examples/nightly_reports"


def told(mlruns: Path, *path: str) -> list[str]:
    """What the runs of a file store say under a path."""
    return sorted(file.read_text() for file in mlruns.glob("/".join(("*", "*", *path))))


def test_a_night_is_told(place: Workplace) -> None:
    shutil.copytree(EXAMPLE, place.path, dirs_exist_ok=True)
    git(place.path, "init", "--quiet", "--initial-branch=main")
    git(place.path, "add", ".")
    git(place.path, "commit", "--quiet", "--message", "Begin")
    # MLflow's own start takes long on a busy machine; nothing else is waited for.
    place.write("patience.yaml", "sinks: [{name: mlflow, wait_s: 150}, {name: slack, wait_s: 150}]\n")
    mlruns = place.path / "mlruns"
    with FakeSlack() as slack:
        done = place.run(
            *("nightly", "nightly.yaml", "strict.yaml", "patience.yaml"),
            *("--session-name", "monday", "--db", "history.db"),
            SLACK_WEBHOOK_URL=f"{slack.url}/hook/T0/B0/planted-hook-secret",
            MLFLOW_TRACKING_URI=mlruns.as_uri(),
            MLFLOW_DISABLE_TELEMETRY="true",
        )
    assert done.returncode == 1, done.stdout + done.stderr
    (message,) = slack.messages.values()
    text = slack.text_of(message)
    assert "1 passed, 1 requirement failed of 2 cases" in text
    assert "num_duplicates is 200 but must be at least 1,000" in text
    assert told(mlruns, "tags", "mlflow.runName") == [
        "dedup[documents=20000]",
        "dedup[documents=2000]",
        "monday",
    ]
    assert len(told(mlruns, "tags", "mlflow.parentRunId")) == 2
    counts = {
        line.split()[1] for text in told(mlruns, "metrics", "num_duplicates") for line in text.splitlines()
    }
    assert set(map(float, counts)) == {200.0, 2000.0}
