"""Four queries over generated sales, each timed by itself, the best of three; the answers are checked.

On one thread CPU time tells the engine's work apart from that of other programs on the machine.
"""

import argparse
import time

import duckdb

from paceline import emit

TABLES = """
CREATE TABLE sale AS
  SELECT i AS id, (i * 7919) % 5000 AS product, (i * 104729) % 365 AS day, (i * 31) % 9973 / 100.0 AS price
  FROM range({rows}) t(i);
CREATE TABLE product AS
  SELECT i AS product, 'product ' || (i % 97) || ' of maker ' || (i % 13) AS title FROM range(5000) t(i);
"""

QUERIES = {
    "group": """
        SELECT sum(n) FROM (SELECT product, day, count(*) n, sum(price) total FROM sale GROUP BY 1, 2)
    """,
    "join": """
        SELECT sum(n) FROM (SELECT title, count(*) n, avg(price) FROM sale JOIN product USING (product) GROUP BY 1)
    """,
    "window": """
        SELECT count(*) FROM (SELECT sum(price) OVER (PARTITION BY product ORDER BY day, id) AS so_far FROM sale)
    """,
    "text": """
        SELECT count(*) FROM sale JOIN product USING (product)
        WHERE regexp_matches(title, '(1|7) of maker 1[0-2]') OR title LIKE '%product 4_ of%'
    """,
}


def measure(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[float, float, tuple[int, ...]]:
    """The best wall time and CPU time of three, and the answer."""
    times = []
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = connection.execute(query).fetchone()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    walls, cpus = zip(*times, strict=True)
    return min(walls), min(cpus), answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    connection = duckdb.connect()
    connection.execute(f"SET threads = {options.threads}")
    connection.execute(TABLES.format(rows=options.rows))
    seconds: dict[str, float] = {}
    answers = {}
    for name, query in QUERIES.items():
        seconds[f"{name}_s"], seconds[f"{name}_cpu_s"], answers[name] = measure(connection, query)
    for name in ("group", "join", "window"):
        assert answers[name][0] == options.rows, (name, answers[name])
    emit.params({"rows": options.rows, "threads": options.threads, "duckdb": duckdb.__version__})
    emit.metrics({"matches": answers["text"][0], **seconds})


if __name__ == "__main__":
    main()
