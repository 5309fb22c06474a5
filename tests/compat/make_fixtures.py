"""Writes the fixtures of `written_by_b4bdfd2`: what that commit left on disks, and what it answered about it.

Run it against a checkout of the version whose files are to be kept, never as a part of the tests:

    git worktree add ../old b4bdfd2
    PYTHONPATH=tests .venv/bin/python tests/compat/make_fixtures.py --checkout ../old [NAME...]

Each NAME becomes an archive of the directory /tmp/paceline-compat-NAME, suite and all, and a JSON file with the answers
to be found again. Nothing of the machine it runs on gets into them: see `neutral_python.py`.
"""

import argparse
import json
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frozen_nights
import neutral_python
from neutral_python import GIT, ask, begin, git, paceline, pack, set_clock, start, write_goldens

from hook_server import HookServer, serving
from object_store import start_store
from patience import wait_until

TOKEN = {"FROZEN_TOKEN": "hush-hush-4711"}
HOOK = {"FROZEN_HOOK_SECRET": "hook-secret-4711", "FROZEN_HOOK_TOKEN": "hook-token-4711"}


def killed(runner: "subprocess.Popen[bytes]", when: Callable[[], Any]) -> None:
    """End a runner as the kernel does when memory is short."""
    wait_until(when, by=runner)
    runner.send_signal(signal.SIGKILL)
    runner.wait()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def make_history() -> None:
    """Sixteen nights with a regression, an improvement, a rename, a reset, a failure and words about findings."""
    frozen_nights.make()


def make_session() -> None:
    """A session with a case of every kind, gone on with once, and one whose runner was killed."""
    place = begin("session")
    (place / "scripts/tasks.pkl").write_bytes(pickle.dumps(_tasks(), protocol=4))
    (place / "scripts/refused.pkl").write_bytes(b"cposix\nsystem\n(S'touch it-ran'\ntR.")
    set_clock("2026-03-20T02:00:00+00:00")
    paceline(place, "run", "--session-name", "monday", codes=(1,), **TOKEN)
    set_clock("2026-03-20T03:00:00+00:00")
    paceline(place, "run", "--resume", "monday", "--rerun-failed", codes=(1,), **TOKEN)
    set_clock("2026-03-21T02:00:00+00:00")
    runner = start(place, "run", "killed.yaml", "--session-name", "killed", "--no-history", **TOKEN)
    killed(runner, lambda: "held" in lines(place / "ledger"))
    set_clock(None)
    pack("session", place)
    questions = [
        ("list",),
        ("list", "--json"),
        ("show", "monday"),
        ("show", "monday", "--json"),
        ("show", "killed"),
        ("show", "killed", "--json"),
        *(
            ("show", "monday", case)
            for case in ("whole", "failing", "flaky", "repeated", 'odd/näme ☃ <&> "quoted"')
        ),
        *(("show", "monday", case, "--json") for case in ("whole", "lost_once", "too_slow", "no_program")),
        ("compare", "monday", "killed", "--json"),
        ("compare", "results/monday/report.json", "results/killed", "--json"),
        ("history", "list", "--json"),
        ("history", "import", "results/monday", "--json"),
        ("send", "monday", "--json"),
    ]
    write_goldens("session", ask(place, questions, **TOKEN))
    in_order = [
        ("history", "import", "results", "--db", "new.db", "--json"),
        ("history", "import", "results", "--db", "new.db", "--json"),
        ("history", "export", "-", "--format", "csv", "--samples", "--db", "new.db"),
        ("history", "list", "--sessions", "--json", "--db", "new.db"),
    ]
    write_goldens("session_imported", ask(place, in_order, **TOKEN))


def _tasks() -> list[dict[str, Any]]:
    stats = [
        {
            "stage_name": "read",
            "process_time": 1.5,
            "num_items_processed": 300,
            "custom_metrics": {"tokens": 12},
        },
        {"stage_name": "write", "process_time": 0.25, "num_items_processed": 290, "input_data_size_mb": 2.0},
    ]
    return [
        {"task_id": str(number), "dataset_name": "cc", "_stage_perf": stats[: number + 1]}
        for number in range(2)
    ]


def make_store() -> None:
    """The objects of a session that ended and of one whose runner was killed, as they lie in the store."""
    place = begin("store")
    server = start_store()
    store = {**server.environ, "PACELINE_WORK_DIR": str(place / "work")}
    set_clock("2026-03-20T02:00:00+00:00")
    paceline(place, "run", "--session-name", "monday", codes=(1,), **store)
    set_clock("2026-03-21T02:00:00+00:00")
    runner = start(place, "run", "held.yaml", "--session-name", "killed", "--no-history", **store)
    killed(
        runner,
        lambda: "held" in lines(place / "ledger") and "nightly/killed/first/record.json" in _keys(server),
    )
    set_clock(None)
    questions = [
        ("list", "--results-dir", "s3://bench/nightly"),
        ("list", "--results-dir", "s3://bench/nightly", "--json"),
        ("show", "s3://bench/nightly/monday"),
        ("show", "s3://bench/nightly/monday", "--json"),
        ("show", "s3://bench/nightly/monday", "bad"),
        ("show", "s3://bench/nightly/monday", "grid[n=2]", "--json"),
        ("show", "s3://bench/nightly/killed"),
        ("show", "s3://bench/nightly/killed", "--json"),
    ]
    write_goldens("store", ask(place, questions, **store))
    for name in ("monday", "killed"):
        shown = paceline(place, "show", f"s3://bench/nightly/{name}", "--json", **store)
        (place / f"{name}.json").write_text(shown.stdout)
    write_goldens("store_compared", ask(place, [("compare", "monday.json", "killed.json", "--json")]))
    for name in ("monday", "killed"):
        (place / f"{name}.json").unlink()
    shutil.rmtree(place / "work")
    for key in _keys(server):
        path = place / "objects" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_client(server).get_object(Bucket="bench", Key=key)["Body"].read())
    server.close()
    pack("store", place)


def _client(server: Any) -> Any:
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=server.url,
        aws_access_key_id="testing-id",
        aws_secret_access_key="testing-secret",
        region_name="us-east-1",
    )


def _keys(server: Any) -> list[str]:
    return [one["Key"] for one in _client(server).list_objects_v2(Bucket="bench").get("Contents", ())]


def make_outbox() -> None:
    """A session whose receiver was away all the time, and one whose receiver went away after two messages."""
    place = begin("outbox")
    with serving() as server:
        variables = {**HOOK, "FROZEN_HOOK_URL": server.url}
        server.answers[:] = [(503, {"Retry-After": "1"})] * 1000
        set_clock("2026-03-20T02:00:00+00:00")
        paceline(place, "run", "--session-name", "away", "--no-history", codes=(1,), **variables)
        server.answers[:] = [(200, {})] * 2 + [(503, {"Retry-After": "1"})] * 1000
        set_clock("2026-03-21T02:00:00+00:00")
        paceline(place, "run", "--session-name", "half", "--no-history", codes=(1,), **variables)
    set_clock(None)
    delivered = [_posted(one) for one in server.posted]
    pack("outbox", place)
    with serving() as server:
        told = paceline(place, "send", "--json", **HOOK, FROZEN_HOOK_URL=server.url)
        write_goldens(
            "outbox",
            {
                "delivered_before": delivered,
                "waiting": [_posted(one) for one in _in_order(server)],
                "told": json.loads(told.stdout),
            },
        )


def _in_order(server: HookServer) -> list[Any]:
    return sorted(server.posted, key=lambda one: (one.path, one.json["session"]))


def _posted(one: Any) -> dict[str, Any]:
    return {"path": one.path, "key": one.key, "token": one.headers.get("X-Token"), "body": one.json}


def make_evals() -> None:
    """Results of an execution that ended and of one that was killed at its second model."""
    place = begin("evals")
    set_clock("2026-03-20T02:00:00+00:00")
    paceline(place, "evals", "run", "first.yaml", "--quiet", "--no-history")
    set_clock("2026-03-21T02:00:00+00:00")
    runner = start(place, "evals", "run", "second.yaml", "--quiet", "--no-history")
    begun = place / "benchmark_results/large/streaming/mock_benchmark/predictions.jsonl"
    killed(runner, lambda: len(lines(begun)) >= 2)
    set_clock(None)
    pack("evals", place)
    results = place / "benchmark_results"
    (first, _) = sorted(path.name for path in results.glob("execution_*"))
    questions = [
        ("evals", "plan", "second.yaml", "--json"),
        ("evals", "plan", "second.yaml"),
        ("evals", "show", f"benchmark_results/{first}"),
        ("evals", "show", f"benchmark_results/{first}", "--json"),
        ("evals", "compare", f"benchmark_results/{first}", "--json"),
        ("show", f"benchmark_results/{first}", "--json"),
    ]
    write_goldens("evals", ask(place, questions))


def make_ab() -> None:
    """An A/B test of two cases that was killed in its sixth run, at the second of them."""
    place = begin("ab")
    set_clock("2026-03-20T02:00:00+00:00")
    runner = start(place, "ab", "ab.yaml", "--out", "out", HANG_AT="12")
    killed(runner, lambda: lines(place / "ledger").count("begin") >= 12)
    set_clock(None)
    pack("ab", place)
    write_goldens("ab", ask(place, [("ab", "ab.yaml", "--out", "out", "--json")]))


def make_bisect() -> None:
    """A search through twelve commits, the eighth of which is slower, that was killed after some runs."""
    place = begin("bisect")
    _make_repository(place / "repo")
    words = (
        "bisect",
        "--repo",
        "repo",
        "--good",
        "main~11",
        "--bad",
        "main",
        "--case",
        "work",
        "--metric",
        "work_s",
    )
    words = (*words, "--out", "out")
    cache = {"PACELINE_CACHE": "cache", **GIT}
    set_clock("2026-03-20T02:00:00+00:00")
    journal = place / "out/journal.jsonl"
    killed(start(place, *words, **cache), lambda: sum('"run"' in line for line in lines(journal)) >= 7)
    set_clock(None)
    shutil.rmtree(place / "cache")
    pack("bisect", place)
    write_goldens("bisect", ask(place, [(*words, "--json")], **cache))


def _make_repository(path: Path) -> None:
    path.mkdir()
    git(path, "init", "--quiet", "--template=", "--initial-branch=main")
    stream = ""
    for number in range(1, 13):
        files = {"step.txt": f"{number}\n", "seconds.txt": "2.3\n" if number >= 8 else "2.0\n"}
        message = f"Step {number}"
        stream += f"commit refs/heads/main\ncommitter Demo <demo@example.invalid> {1770000000 + number * 3600} +0000\n"
        stream += f"data {len(message)}\n{message}\n"
        for name, text in files.items():
            stream += f"M 100644 inline {name}\ndata {len(text)}\n{text}\n"
    git(path, "fast-import", "--quiet", feed=stream)
    git(path, "checkout", "--quiet", "main")


def make_fingerprints() -> None:
    """A suite with everything in it that decides a fingerprint."""
    place = begin("fingerprints")
    pack("fingerprints", place)
    values = {
        "SET_HERE": "set",
        "NUMBER": "42",
        "EMPTY": "",
        "API_KEY": "key-4711",
        "DB_PASSWORD": "word-4711",
    }
    variables = {f"FROZEN_{name}": value for name, value in values.items()}
    suites = [
        ["base.yaml"],
        ["base.yaml", "laptop.yaml"],
        ["suite.json"],
        ["suite.json", "--datasets", "datasets.json"],
    ]
    plans = []
    for words in suites:
        done = paceline(
            place, "plan", *words, "--session-name", "frozen", "--json", codes=(0, 2), **variables
        )
        plan = json.loads(done.stdout)
        cases = {case["name"]: case["fingerprint"] for case in plan["cases"]}
        setups = {case["name"]: case["fingerprint"] for case in plan["setups"]}
        plans.append({"words": words, "variables": variables, "setups": setups, "cases": cases})
    write_goldens("fingerprints", plans)


MAKERS = {
    name.removeprefix("make_"): make for name, make in list(globals().items()) if name.startswith("make_")
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkout", type=Path, help="make the environment anew, from this checkout")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(MAKERS)}")
    options = parser.parse_args()
    if options.checkout:
        neutral_python.install(options.checkout.absolute())
    for name in options.names or MAKERS:
        print(name, flush=True)
        MAKERS[name]()
        shutil.rmtree(neutral_python.place_of(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
