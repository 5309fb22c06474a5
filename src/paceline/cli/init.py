"""`paceline init`: a suite to start from."""

from pathlib import Path

import click

from paceline.cli.output import write
from paceline.errors import PacelineError

CONFIG = """\
# A benchmark suite.
#
#   paceline plan paceline.yaml                     what would run, with nothing run
#   paceline run paceline.yaml                      run it all
#   paceline run paceline.yaml --only sort          one entry; also a glob, or tag:quick
#   paceline schema config                          every key there is, as a JSON Schema

# Each session gets a directory of its own in here.
results_dir: ./results

# A hang guard for entries that set no timeout_s. To demand speed, use a requirement with max_value.
default_timeout_s: 600

# Named inputs; a script gets one as {dataset:words,text}. ${VAR:-default} reads the environment.
# datasets:
#   - name: words
#     formats:
#       - type: text
#         path: ${DATA_DIR:-/data}/words.txt

# Where results go besides the files of the session.
# sinks:
#   - name: slack
#     webhook_url: ${SLACK_WEBHOOK_URL}

entries:
  # A script is looked up in scripts/ beside this file. It gets the place for its metrics as
  # --benchmark-results-path; see scripts/example_benchmark.py.
  - name: sort
    script: example_benchmark.py
    args: --size {matrix.size} --order {matrix.order}
    # One case for each combination: sort[order=random,size=10000] and so on.
    matrix:
      size: [10000, 100000]
      order: [random, sorted]
      exclude:
        - {size: 10000, order: sorted}
    tags: [quick]
    # One record with three samples of each metric, after a run that is not counted.
    repeat: 3
    warmup: 1
    timeout_s: 120
    requirements:
      - metric: is_sorted
        exact_value: true
      - metric: sort_s
        max_value: 30
      # Said in the report, without failing the run.
      - metric: peak_memory_bytes
        max_value: 2000000000
        severity: warn

  # Any program in any language can be a benchmark; its time and memory are measured for it.
  - name: interpreter_start
    command: ["{python}", -c, "print('hello')"]
    tags: [quick, start]
    env:
      PYTHONDONTWRITEBYTECODE: "1"
    # Nothing else runs beside it, whatever --jobs says.
    resources:
      exclusive: true
"""

SCRIPT = '''\
"""Times sorting a list of numbers.

By hand:  python example_benchmark.py --benchmark-results-path /tmp/example --size 1000
"""

import argparse
import random
import time

from paceline import emit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path", required=True, help="where the results are left")
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--order", choices=["random", "sorted"], default="random")
    args = parser.parse_args()

    # What the run was given; kept with its results.
    emit.params({"size": args.size, "order": args.order})

    # Named parts are timed one by one.
    with emit.task("make_data"):
        numbers = list(range(args.size))
        if args.order == "random":
            random.Random(0).shuffle(numbers)

    with emit.task("sort"):
        start = time.perf_counter()
        ordered = sorted(numbers)
        seconds = time.perf_counter() - start

    # What was measured. The requirements in paceline.yaml are held against these.
    emit.metrics(
        {
            "sort_s": seconds,
            "items_per_s": args.size / seconds,
            "is_sorted": all(a <= b for a, b in zip(ordered, ordered[1:])),
        }
    )


if __name__ == "__main__":
    main()
'''

FILES = {"paceline.yaml": CONFIG, "scripts/example_benchmark.py": SCRIPT}


def write_starter(directory: Path) -> list[Path]:
    """Write the starter suite into a directory and say which files it is; nothing that exists is overwritten."""
    paths = {directory / name: text for name, text in FILES.items()}
    for path in paths:
        if path.exists() or path.is_symlink():
            raise PacelineError(f"{path} exists already; move it away or give another directory")
    try:
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise PacelineError(f"cannot write {path}: {error.strerror}; give another directory") from error
    return list(paths)


EPILOG = """\b
Examples:
  paceline init                    into the current directory
  paceline init my_suite           into a new directory
  paceline init my_suite && cd my_suite && paceline run
"""


@click.command("init", epilog=EPILOG)
@click.argument("directory", default=".", metavar="[DIR]", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Write paceline.yaml, with a comment for everything in it, and a benchmark script, into DIR.

    Files that exist are left alone: then nothing is written.
    """
    from paceline.cli.init import write_starter

    for path in write_starter(directory):
        write(f"wrote {path}\n")
    where = "" if directory == Path() else f"cd {directory} && "
    write(f"next: {where}paceline plan, then paceline run\n")
