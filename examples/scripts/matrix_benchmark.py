"""Multiplies square matrices of integers in plain Python, by one of several algorithms, and checks the product.

python matrix_benchmark.py --benchmark-results-path /tmp/results --size 60 --algorithm row_sums
"""

import argparse
import random

from paceline import emit

Matrix = list[list[int]]


def naive(left: Matrix, right: Matrix) -> Matrix:
    span = range(len(left))
    return [[sum(left[i][k] * right[k][j] for k in span) for j in span] for i in span]


def transposed(left: Matrix, right: Matrix) -> Matrix:
    """Rows against rows: both are walked in the order they lie in memory."""
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left]


def row_sums(left: Matrix, right: Matrix) -> Matrix:
    """Each row of the product as a weighted sum of rows, all its numbers at once."""
    product = []
    for row in left:
        sums = [0] * len(left)
        for factor, other in zip(row, right, strict=True):
            sums = [total + factor * value for total, value in zip(sums, other, strict=True)]
        product.append(sums)
    return product


ALGORITHMS = {"naive": naive, "transposed": transposed, "row_sums": row_sums}


def make_matrix(size: int, chooser: random.Random) -> Matrix:
    return [[chooser.randrange(1000) for _ in range(size)] for _ in range(size)]


def times_vector(matrix: Matrix, vector: list[int]) -> list[int]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def is_product(left: Matrix, right: Matrix, product: Matrix, chooser: random.Random) -> bool:
    """Freivalds' check: a wrong product passes five random vectors with a chance of 1 in 32 at most."""
    for _ in range(5):
        vector = [chooser.randrange(2) for _ in product]
        if times_vector(left, times_vector(right, vector)) != times_vector(product, vector):
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Multiply matrices.")
    parser.add_argument("--benchmark-results-path", required=True, help="where the results are left")
    parser.add_argument("--size", type=int, default=60, help="rows and columns (default: %(default)s)")
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), default="naive")
    args = parser.parse_args()
    emit.params({"size": args.size, "algorithm": args.algorithm})

    chooser = random.Random(args.size)  # the same numbers every time
    with emit.task("make_matrices"):
        left, right = make_matrix(args.size, chooser), make_matrix(args.size, chooser)
    with emit.task("multiply", items=args.size**3) as multiply:
        product = ALGORITHMS[args.algorithm](left, right)
    with emit.task("check"):
        is_success = is_product(left, right, product, chooser)

    emit.metrics({"is_success": is_success, "num_multiplications": args.size**3})
    emit.metric("multiply_time", multiply.elapsed_s, unit="s")
    emit.metric("multiplications_per_sec", args.size**3 / multiply.elapsed_s)
    return 0 if is_success else 1


if __name__ == "__main__":
    raise SystemExit(main())
