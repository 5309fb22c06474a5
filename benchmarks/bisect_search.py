"""How often a whole search is right, and how many runs it takes: the table of docs/bisect.md."""

import random

from paceline.experiments.searching import Limits, Question, Run, Search
from paceline.report.bisection import Candidate

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
    print("step    found  of these right  not seen to differ  runs")
    for effect in (0.05, 0.075, 0.1, 0.15):
        ends = [search(seed + 777, effect) for seed in range(SEARCHES)]
        right = [is_right for ending, is_right, _ in ends if ending == "found"]
        unseen = sum(ending == "not_reproduced" for ending, _, _ in ends)
        runs = sum(count for _, _, count in ends) / SEARCHES
        share = sum(right) / len(right)
        print(
            f"{effect:5.1%}  {len(right) / SEARCHES:5.0%}  {share:14.1%}  {unseen / SEARCHES:18.0%}  {runs:4.0f}"
        )


if __name__ == "__main__":
    main()
