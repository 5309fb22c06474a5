"""Load and faults: what is lost, done twice, left behind, or gets in, when things go wrong on purpose.

    python benchmarks/chaos.py                            everything
    python benchmarks/chaos.py --quick                    a few rounds of each part
    python benchmarks/chaos.py kills --rounds 1000        only one part
    python benchmarks/chaos.py hostile --seed 7 --only 41 one round again

Everything that is chosen by chance comes from --seed and the round's number. A round that fails prints the command that
repeats it, and its directory is kept with --keep DIR. The exit code is 1 if any count is not 0. Moments in time are
the machine's: a kill that failed once may need some repeats.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from chaos_parts.ground import Tally, load, show
from figures import make_parser, publish
from measuring import in_memory

PARTS = ("kills", "hostile", "disk", "sinks", "writers")
ROUNDS = {"kills": 1000, "hostile": 10_000, "disk": 200, "sinks": 20, "writers": 1000}
QUICK = {"kills": 9, "hostile": 120, "disk": 6, "sinks": 4, "writers": 50}


def run_part(part: str, directory: Path, args: argparse.Namespace) -> list[Tally]:
    rounds = args.rounds or (QUICK if args.quick else ROUNDS)[part]
    if part == "kills":
        from chaos_parts.kills import KINDS, kills

        return kills(directory, args.seed, rounds, (args.kind,) if args.kind else KINDS, args.only)
    if part == "hostile":
        from chaos_parts.hostile import hostile

        return hostile(directory, args.seed, rounds, args.kind, args.only)
    if part == "disk":
        from chaos_parts.disk import disk

        return disk(directory, rounds, args.only)
    if part == "sinks":
        from chaos_parts.sinks import sinks

        return sinks(directory, rounds, args.kind)
    from chaos_parts.writers import writers

    return writers(directory, rounds, args.kind, args.seed)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--rounds", type=int, help="kills, files, pages, cases or records a writer")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kind", help="only this kind of session, file, service or database")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="only the round of this number")
    parser.add_argument("--quick", action="store_true", help="a few rounds of each part")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, and leave what failed")
    args = parser.parse_args()
    if unknown := {*args.parts} - {*PARTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there is: {', '.join(PARTS)}")
    load()
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory(prefix="paceline-chaos-", dir=in_memory()) as temporary:
        for part in args.parts or PARTS:
            directory = (args.keep or Path(temporary)).absolute() / part
            directory.mkdir(parents=True)
            tallies += run_part(part, directory, args)
        os.chdir("/")
    show(tallies)
    print(f"\nseed {args.seed}")
    went_wrong = sum(sum(tally.counts.values()) for tally in tallies)
    publish(args, {}, num_rounds=sum(tally.rounds for tally in tallies), num_went_wrong=went_wrong)
    return 1 if went_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
