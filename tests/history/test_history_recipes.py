"""What the page about the history says to SQL, said to a server as well; that page's own test runs the rest."""

import re
import subprocess
from pathlib import Path

from paceline.history import open_store
from postgres_server import server
from stored_records import ENVIRONMENT, measured, record, session

PAGE = Path(__file__).parents[2] / "docs/storage.md"


def recipe(title: str) -> str:
    found = re.search(
        rf'^```sql title="{re.escape(title)}"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found
    return found[1]


def fill(url: str) -> None:
    with open_store(url) as store:
        for number, value in enumerate((1.0, 2.0, 1.0)):
            told = record("sort", number=number, metrics={"exec_time_s": measured(value)})
            commit_time = session(9 - number).started_at  # measured from the newest commit to the oldest
            store.add(session(number, commit_time=commit_time), ENVIRONMENT, [told])


def test_psql_and_sqlite3_say_the_same(tmp_path: Path) -> None:
    file, url = str(tmp_path / "benchmark.db"), server().new_database()
    fill(file)
    fill(url)
    commands = (["sqlite3", file], ["psql", url, "--no-align", "--tuples-only", "--no-psqlrc", "-f", "-"])
    answers = [
        subprocess.run(words, input=recipe("changes.sql"), capture_output=True, text=True, check=True).stdout
        for words in commands
    ]
    rows = [[line.split("|") for line in answer.splitlines()] for answer in answers]
    assert [[(*row[:2], float(row[2])) for row in answer] for answer in rows] == [
        [("sort", "exec_time_s", 100.0), ("sort", "exec_time_s", -50.0)]
    ] * 2
