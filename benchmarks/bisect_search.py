"""How often a whole search is right, and how many runs it takes: the table of docs/bisect.md."""

import random

from figures import make_parser, publish

from paceline.experiments.bisect.report import Question
from paceline.experiments.bisect.search import Limits, Run, Search
from paceline.experiments.builds.build import Candidate

COMMITS = 40
SEARCHES = 150
NOISE = 0.05


def search(seed: int, effect: float) -> tuple[str, bool, int]:
    """How a search for a culprit at random ends, whether it names the right one, and after how many runs."""
    source = random.Random(seed)
    culprit = source.randrange(COMMITS)
    steps = tuple(Candidate(ident=str(number), label=str(number)) for number in range(COMMITS))
    good = Candidate(ident="good", label="good")
    question = Question(case="work", metric="work_s", direction="lower", good=good, candidates=steps)
    found = Search(question, Limits())
    while (index := found.next()) is not None:
        found.add(Run(index=index, value=(1 + effect * (index >= culprit)) * source.gauss(1, NOISE)))
    result = found.result()
    return result.ending, result.culprit == culprit, result.runs


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--searches", type=int, default=SEARCHES, help="searches for a step of each size")
    options = parser.parse_args()
    figures = {}
    print("step    found  of these right  not seen to differ  runs")
    for effect in (0.05, 0.075, 0.1, 0.15):
        ends = [search(seed + 777, effect) for seed in range(options.searches)]
        right = [is_right for ending, is_right, _ in ends if ending == "found"]
        unseen = sum(ending == "not_reproduced" for ending, _, _ in ends)
        runs = sum(count for _, _, count in ends) / options.searches
        share = sum(right) / max(len(right), 1)
        found, unseen_share = len(right) / options.searches, unseen / options.searches
        print(f"{effect:5.1%}  {found:5.0%}  {share:14.1%}  {unseen_share:18.0%}  {runs:4.0f}")
        size = f"{1000 * effect:g}_permille"
        figures[f"step_of_{size}_accuracy"] = (sum(right) / options.searches, "")
        figures[f"step_of_{size}_runs_overhead"] = (runs, "runs")
    publish(options, figures, num_searches=4 * options.searches)


if __name__ == "__main__":
    main()
