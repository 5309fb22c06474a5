"""Other tools' change point detectors on the series of a file; runs in the peers' own environment.

PEERS/bin/python benchmarks/peers/detectors.py otava REPEATS < series.json    # indices and seconds of each
PEERS/bin/python benchmarks/peers/detectors.py otava serve                    # a series a line, its indices a line
"""

import json
import math
import sys
import time
from collections.abc import Callable

Series = list[float]


def otava() -> Callable[[Series], list[int]]:
    from otava.analysis import compute_change_points

    return lambda series: [int(point.index) for point in compute_change_points(series)[0]]


def asv() -> Callable[[Series], list[int]]:
    from asv.step_detect import detect_steps

    return lambda series: [int(segment[0]) for segment in detect_steps(series)[1:]]


def pelt() -> Callable[[Series], list[int]]:
    """Kernel PELT by ruptures, with the usual penalty of 3 ln n and the noise taken from differences."""
    import numpy as np
    import ruptures

    def find(series: Series) -> list[int]:
        values = np.array(series)
        steps = np.diff(values)
        spread = 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2)
        search = ruptures.KernelCPD(kernel="linear", min_size=3).fit(values)
        found = search.predict(pen=3 * math.log(len(values)) * max(spread, 1e-9) ** 2)
        return [int(index) for index in found[:-1]]

    return find


def main() -> None:
    find = {"otava": otava, "asv": asv, "pelt": pelt}[sys.argv[1]]()
    if sys.argv[2] == "serve":
        for line in sys.stdin:
            print(json.dumps(find(json.loads(line))), flush=True)
        return
    repeats = int(sys.argv[2])
    answers = []
    for series in json.load(sys.stdin):
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            indices = find(series)
            times.append(time.perf_counter() - start)
        answers.append({"indices": indices, "seconds": min(times)})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
