"""Files of others that are broken or hostile: each ends as a success or as one line, and touches nothing outside."""

import json
import os
import random
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos_parts.ground import Action, Ended, Tally, adopted, command, end_all, environment, run
from chaos_parts.mutations import Mutator

HANG_S = 20.0
PEAK_MIB = 1024
A_PROGRAM = 50
"""One round in so many starts the program anew; a fork is what the others are."""
SECRET = "the-content-of-a-file-outside-7f3a"
STORE = "memory://bench/r"
BENCHMARKS = Path(__file__).parents[1]

SCRIPT = """\
from paceline import emit
emit.params({"n": 1, "nested": {"deep": [1, 2]}})
for name in ("load", "work"):
    with emit.task(name):
        pass
emit.metrics({"is_success": True, "score_s": 1.5, "rows": [1, 2, 3]})
"""
SUITE = """\
results_dir: results
history: {url: h.db}
paths:
  - {name: data, host_path: /tmp/data}
sinks:
  - {name: copy, type: files, directory: copies, formats: [jsonl, csv]}
entries:
  - name: a
    script: work.py
    args: ['--n', '{matrix.n}']
    matrix: {n: [1, 2]}
    tags: [fast]
    requirements:
      - {metric: score_s, max_value: 10}
  - {name: b, command: [sh, -c, 'echo b'], env: {MODE: '${MODE:-fast}'}, timeout_s: 60, repeat: 2}
"""
# Its command leaves the hostile files where a benchmark leaves its results.
COPYING = """\
results_dir: copied
entries:
  - {name: a, command: [sh, -c, 'cp -a left/. "$PACELINE_RESULTS_PATH"']}
"""
EVIL = "import pathlib\npathlib.Path(EXECUTED, 'by-import').write_text('x')\nclass Sink: pass\n"


@dataclass(frozen=True)
class Base:
    """Real files to make hostile ones from, and what must stay as it is."""

    root: Path

    @property
    def path(self) -> Path:
        return self.root / "base"

    def build(self) -> None:
        for name in ("base/scripts", "base/left", "canary/inner", "executed", "evil", "rounds"):
            (self.root / name).mkdir(parents=True)
        (self.root / "canary/keep.txt").write_text(f"{SECRET}\n")
        (self.root / "canary/inner/record.json").write_text(json.dumps({"reason": SECRET}))
        (self.root / "evil/chaos_evil.py").write_text(EVIL.replace("EXECUTED", repr(f"{self.root}/executed")))
        (self.path / "scripts/work.py").write_text(SCRIPT)
        (self.path / "suite.yaml").write_text(SUITE)
        (self.path / "copying.yaml").write_text(COPYING)
        (self.path / "manifest.jsonl").write_text("".join(f"{json.dumps(_talk(n))}\n" for n in range(4)))
        for words in (
            ["run", "suite.yaml", "--session-name", "s1"],
            ["run", "suite.yaml", "--session-name", "s2"],
            ["dashboard", "build", "site", "--results", "results"],
            self._store_a_session,
        ):
            ended = run(words, self.path, environment(self.path))
            if ended.code not in (0, 1) or "Traceback" in ended.output:
                raise SystemExit(f"the files to begin with could not be made:\n{ended.output}")
        left = next((self.path / "results/s1").glob("a*n=1*/benchmark_results"))
        shutil.copytree(left, self.path / "left", dirs_exist_ok=True)

    def _store_a_session(self) -> None:
        """Run a session that is kept in a store in memory, and leave what the store then holds."""
        from fsspec.implementations.memory import MemoryFileSystem

        os.environ["PACELINE_WORK_DIR"] = str(self.path / "work")
        with suppress(SystemExit):
            command(["run", "suite.yaml", "--session-name", "s1", "--results-dir", STORE, "--no-history"])
        for name, file in MemoryFileSystem.store.items():
            target = self.path / "objects" / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.getvalue())

    def outside(self) -> dict[str, object]:
        """All that no round may change, and what it is now."""
        found: dict[str, object] = {}
        for top in ("canary", "executed"):
            for path in sorted((self.root / top).rglob("*")):
                status = path.lstat()
                content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
                found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
        names = (each.name for each in (*self.root.iterdir(), *(self.root / "rounds").iterdir()))
        found["names"] = sorted(name for name in names if not name.isdecimal() and not name.endswith(".log"))
        return found


def _talk(number: int) -> dict[str, object]:
    segments = [
        {"start": 5.0 * at, "end": 5.0 * at + 4.5, "speaker": f"s{at % 3}", "metrics": {"bandwidth": 9000}}
        for at in range(20)
    ]
    return {"audio_filepath": f"{number}.wav", "audio_sample_rate": 16000, "segments": segments}


@dataclass(frozen=True)
class Round:
    """A directory with copies of the real files, some of which are hostile."""

    base: Base
    path: Path
    mutator: Mutator

    def take(self, *names: str) -> None:
        for name in names:
            source, target = self.base.path / name, self.path / name
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copyfile(source, target)

    def choice(self, *options: list[str]) -> list[str]:
        return self.mutator.chance.choice(options)


def config(round_: Round) -> Action:
    others = [
        BENCHMARKS / "nightly.yaml",
        BENCHMARKS / "curation.yaml",
        *(BENCHMARKS.parent / "examples").glob("*.yaml"),
    ]
    source = round_.mutator.chance.choice([round_.base.path / "suite.yaml"] * 3 + sorted(others))
    round_.take("scripts")
    target = round_.path / "suite.yaml"
    shutil.copyfile(source, target)
    round_.mutator.file(target)
    return round_.choice(
        ["plan", "suite.yaml"], ["plan", "suite.yaml", "--json"], ["plan", "suite.yaml", "--explain"]
    )


def manifest(round_: Round) -> Action:
    from paceline.curate import LocalExecutor, Pipeline
    from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage, ALMManifestReader

    round_.take("manifest.jsonl")
    round_.mutator.file(round_.path / "manifest.jsonl")

    def read() -> None:
        stages = [
            ALMManifestReader("manifest.jsonl"),
            ALMDataBuilderStage(target_window_duration=30.0),
            ALMDataOverlapStage(overlap_percentage=50, target_duration=30.0),
        ]
        _one_line(lambda: Pipeline("hostile", stages).run(LocalExecutor(workers=1)))

    return read


def tasks(round_: Round) -> Action:
    round_.take("left")
    target = round_.path / "left/tasks.pkl"
    touch = f"touch {round_.base.root}/executed/by-pickle"
    target.write_bytes(round_.mutator.pickle_of(target.read_bytes(), touch))
    return _read_output


def results(round_: Round) -> Action:
    round_.take("left")
    round_.mutator.tree(round_.path / "left")
    return _read_output


def _read_output() -> None:
    from paceline.run import script_output

    print(script_output.read(Path("left")).problems)


def copied(round_: Round) -> Action:
    """Hostile results through a whole session."""
    (tasks if round_.mutator.chance.random() < 0.3 else results)(round_)
    round_.take("copying.yaml")
    return ["run", "copying.yaml", "--session-name", "s", "--db", "new.db"]


def session(round_: Round) -> Action:
    round_.take("results")
    round_.mutator.tree(round_.path / "results/s1")
    return round_.choice(
        ["list"],
        ["list", "--json"],
        ["show", "s1"],
        ["show", "s1", "--json"],
        ["show", "s1", "a[n=1]"],
        ["show", "s1", "b"],
        ["compare", "s1", "s2", "--db", "new.db"],
        ["compare", "results/s1", "results/s2", "--markdown", "--db", "new.db"],
        ["history", "import", "results", "--db", "new.db"],
        ["history", "import", "results/s1", "--db", "new.db"],
    )


def resume(round_: Round) -> Action:
    round_.take("results", "suite.yaml", "scripts")
    round_.mutator.tree(round_.path / "results/s1")
    return ["run", "suite.yaml", "--resume", "s1", "--sink", "none", "--db", "new.db"]


def dashboard(round_: Round) -> Action:
    round_.take("results", "h.db")
    round_.mutator.tree(round_.path / "results/s1")
    return ["dashboard", "build", "site", "--results", "results", *round_.choice([], ["--db", "h.db"])]


def site(round_: Round) -> Action:
    round_.take("site", "h.db")
    if round_.mutator.chance.random() < 0.7:
        round_.mutator.file(round_.path / "site/data/manifest.json")
    else:
        round_.mutator.tree(round_.path / "site")
    return ["dashboard", "build", "site", "--db", "h.db"]


def database(round_: Round) -> Action:
    round_.take("h.db")
    round_.mutator.database(round_.path / "h.db")
    return round_.choice(
        ["history", "list", "--db", "h.db"],
        ["history", "log", "a[n=1]", "score_s", "--db", "h.db"],
        ["history", "export", "out.json", "--db", "h.db"],
        ["history", "import", "h.db", "--db", "new.db"],
        ["history", "merge", "h.db", "--db", "new.db"],
        ["history", "prune", "--keep", "1", "--db", "h.db"],
        ["history", "query", "SELECT * FROM measurement", "--db", "h.db"],
        ["regressions", "--db", "h.db"],
        ["compare", "s1", "s2", "--db", "h.db"],
        ["dashboard", "build", "site", "--db", "h.db"],
    )


def objects(round_: Round) -> Action:
    """A store with hostile names, objects and archives."""
    round_.take("suite.yaml", "scripts")
    chance, mutator = round_.mutator.chance, round_.mutator
    root = round_.base.path / "objects"
    held = {
        f"/{path.relative_to(root)}": path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }
    name = chance.choice(sorted(held))
    what = chance.random()
    if what < 0.5:
        is_json = name.endswith(("json", "jsonl"))
        change = (
            mutator.archive_of if name.endswith("gz") else mutator.json_of if is_json else mutator.bytes_of
        )
        held[name] = change(held[name])
    elif what < 0.9:
        hostile_name = chance.choice(mutator.texts)[:1000]
        held[f"/bench/r/{chance.choice(('s1/', '', 's1/b/', '.sessions/'))}{hostile_name}"] = held[name]
    else:
        del held[name]
    words = round_.choice(
        ["list", "--results-dir", STORE],
        ["show", f"{STORE}/s1"],
        ["show", f"{STORE}/s1", "b"],
        ["run", "suite.yaml", "--resume", f"{STORE}/s1", "--sink", "none", "--no-history"],
        ["run", "suite.yaml", "--resume", f"{STORE}/s1", "--rerun-failed", "--sink", "none", "--no-history"],
        ["history", "import", f"{STORE}/s1", "--db", "new.db"],
    )

    def look() -> None:
        from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

        MemoryFileSystem.store.update(
            {name: MemoryFile(MemoryFileSystem, name, data) for name, data in held.items()}
        )
        command(words)

    return look


def archive(round_: Round) -> Action:
    packed = next((round_.base.path / "objects").rglob("files.tar.gz"))
    (round_.path / "packed").write_bytes(round_.mutator.archive_of(packed.read_bytes()))

    def unpack() -> None:
        from paceline.record.remote.archive import unpack

        _one_line(lambda: unpack(Path("packed"), Path("results/s1/b").absolute(), None))

    return unpack


def outbox(round_: Round) -> Action:
    chance = round_.mutator.chance
    round_.take("results", *chance.choice((("suite.yaml", "scripts"), ())))
    where = round_.path / "results/s1/.outbox"
    if chance.random() < 0.5:
        spec = next(where.glob("*/spec.json"))
        data = json.loads(spec.read_text())
        attacks = {
            "type": ["chaos_evil:Sink", "os:system"],
            "options": [{"directory": str(round_.mutator.canary)}],
        }
        name = chance.choice([*[*attacks] * 6, *sorted(data["spec"])])
        data["spec"][name] = chance.choice([*attacks.get(name, ()), round_.mutator.value()])
        spec.write_bytes(round_.mutator.dump(data))
    else:
        round_.mutator.tree(where)
    for ledger in where.glob("*/ledger.jsonl"):
        if ledger.is_file():
            ledger.write_text("")  # so that all of it waits again
    return ["send", "s1"]


def _one_line(call: Callable[[], object]) -> None:
    from paceline.errors import PacelineError

    try:
        call()
    except PacelineError as error:
        print(error)


# How often each comes; what starts processes of its own is dear.
WEIGHTS: dict[Callable[[Round], Action], int] = {
    config: 20,
    manifest: 8,
    tasks: 12,
    results: 10,
    copied: 2,
    session: 18,
    resume: 2,
    dashboard: 3,
    site: 3,
    database: 12,
    objects: 5,
    archive: 4,
    outbox: 1,
}
TURNS = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]
KINDS = {kind.__name__: kind for kind in WEIGHTS}


def problems(ended: Ended, round_: Round, before: dict[str, object]) -> Iterator[tuple[str, str]]:
    """What a round did that it must not do."""
    last = ended.output[-1500:]
    if ended.timed_out:
        yield "hangs", f"it did not end within {HANG_S:.0f} s: {last}"
    elif ended.code not in (0, 1, 2) or "Traceback (most recent" in ended.output:
        yield "tracebacks", f"exit code {ended.code}: {last}"
    if ended.peak_mib > PEAK_MIB:
        yield "hangs", f"it took {ended.peak_mib:.0f} MiB"
    if "\x1b" in ended.output or "\x9b" in ended.output:
        yield "escapes", repr(last)
    after = round_.base.outside()
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    executed = [name for name in changed if name.startswith(str(round_.base.root / "executed/"))]
    if executed:
        yield "executed", f"{executed} {last}"
    if set(changed) - set(executed) - {str(round_.base.root / "executed")}:
        yield "outside", f"changed: {changed} {last}"
    elif SECRET in ended.output or _holds_secret(round_.path):
        yield (
            "outside",
            f"the content of a file outside was taken in: {_holds_secret(round_.path)} {last[-300:]}",
        )


def _holds_secret(directory: Path) -> list[str]:
    found = []
    for parent, _, names in os.walk(directory):
        for path in (Path(parent, name) for name in names):
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_size < 4 << 20:
                    found += [str(path)] if SECRET.encode() in path.read_bytes() else []
    return found


def one_round(tally: Tally, base: Base, seed: int, kind: str, number: int) -> None:
    mutator = Mutator(base.root, random.Random(f"{seed}/{kind}/{number}"))
    round_ = Round(base, base.root / "rounds" / str(number), mutator)
    round_.path.mkdir()
    action = KINDS[kind](round_)
    env = environment(
        round_.path,
        PACELINE_WORK_DIR=str(round_.path / "work"),
        TMPDIR=str(round_.path),
        PYTHONPATH=str(base.root / "evil"),
        CHAOS_SECRET="a-secret-of-the-environment",
    )
    before = base.outside()
    words = getattr(action, "__qualname__", action)
    if number % A_PROGRAM == 0 and isinstance(action, list):
        program = [sys.executable, "-P", "-m", "paceline", *action]
        action = partial(os.execve, sys.executable, program, env)
    ended = run(action, round_.path, env, within_s=HANG_S, limits=True)
    tally.rounds += 1
    tally.took(ended)
    failed = False
    for column, what in problems(ended, round_, before):
        failed = True
        repeat = ["hostile", "--seed", str(seed), "--kind", kind, "--only", str(number)]
        tally.fail(column, f"{kind} {number}: {words}\n{what}", repeat)
    if adopted():
        end_all()
    if failed:
        for each in (base.root / "executed").iterdir():
            each.unlink()
    else:
        shutil.rmtree(round_.path, ignore_errors=True)
        (base.root / "rounds" / f"{number}.log").unlink(missing_ok=True)


def hostile(directory: Path, seed: int, rounds: int, kind: str | None, only: int | None) -> list[Tally]:
    """As many rounds as asked for, of all kinds in turn or of one."""
    tally = Tally("hostile", kind or "all kinds of files", "files")
    tally.applies = ("tracebacks", "outside", "executed", "escapes", "hangs")
    base = Base(directory)
    base.build()
    turns = [kind] if kind else [each.__name__ for each in TURNS]
    random.Random(seed).shuffle(turns)
    done: Counter[str] = Counter()
    for number in range(rounds) if only is None else [only]:
        one_round(tally, base, seed, turns[number % len(turns)], number)
        done[turns[number % len(turns)]] += 1
    tally.detail = ", ".join(f"{count} {name}" for name, count in sorted(done.items()))
    return [tally]
