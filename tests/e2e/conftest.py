"""Real sessions, run by the real command line in processes of their own."""

import pytest

from workplace import Workplace

COUNT = """
import argparse, json, os, pathlib, time
from paceline import emit
parser = argparse.ArgumentParser()
parser.add_argument("--benchmark-results-path", type=pathlib.Path, required=True)
parser.add_argument("--value", type=float, default=1)
parser.add_argument("--exit", type=int, default=0)
args = parser.parse_args()
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(os.environ["PACELINE_CASE"] + "\\n")
emit.params({"value": args.value})
with emit.task("work"):
    pass
emit.metrics({"is_success": args.exit == 0, "score": args.value})
raise SystemExit(args.exit)
"""


@pytest.fixture
def suite(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("LEDGER", str(place.path / "ledger"))
    place.write("scripts/count.py", COUNT)
    return place
