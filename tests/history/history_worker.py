"""Programs that tests start and kill: `python history_worker.py TASK DATABASE …`."""

import sys

from paceline.history import open_store
from stored_records import ENVIRONMENT, measured, record, session


def write(database: str, number: str, count: str) -> None:
    """Add records a few at a time, as the workers of a test run do, all to one session."""
    told = [
        record(f"w{number}[n={index}]", metrics={"a": measured(1.0), "b": measured(2.0, 1.0, 3.0)})
        for index in range(int(count))
    ]
    with open_store(database) as store:
        for first in range(0, int(count), 10):
            store.add(session(1), ENVIRONMENT, told[first : first + 10])


def fill(database: str, start: str) -> None:
    """Add large sessions until killed; says when each is done."""
    with open_store(database) as store:
        for number in range(int(start), int(start) + 1000):
            names = {f"m{metric}": measured(float(metric), 1.0, 2.0) for metric in range(5)}
            told = [record(f"c{index}", number=number, metrics=names) for index in range(150)]
            store.add(session(number), ENVIRONMENT, told)
            print(number, flush=True)


def upgrade(database: str) -> None:
    print("start", flush=True)
    open_store(database).close()


if __name__ == "__main__":
    {"write": write, "fill": fill, "upgrade": upgrade}[sys.argv[1]](*sys.argv[2:])
