"""Whole columns at a time: what the tables of TPC-H are put together from."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.tpch.vocabulary import COMMENT_WORDS
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# Distinct comments a table draws from: enough that they do not look alike, few enough to be made at once.
_COMMENTS = 4096


def generator_of(seed: int, *place: int) -> np.random.Generator:
    """Random numbers that depend on nothing but the seed and the place in the data."""
    return np.random.default_rng([seed, *place])


def pick(words: Sequence[str], positions: Integers) -> pa.Array:
    """The words at these positions."""
    codes = pa.array(positions.astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string())).dictionary_decode()


def draw(rng: np.random.Generator, words: Sequence[str], count: int) -> pa.Array:
    """Words drawn evenly."""
    return pick(words, rng.integers(0, len(words), count))


def join(*parts: pa.Array | str, between: str = "") -> pa.Array:
    """Strings put together row by row."""
    return pc.binary_join_element_wise(*parts, between)


def digits(numbers: Integers, width: int = 0) -> pa.Array:
    """Numbers as text, with zeros in front up to the width."""
    return pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width, "0")


def money(cents: Integers) -> NDArray[np.float64]:
    """Whole cents as the nearest floats, so that equal amounts are equal in every engine."""
    return cents / 100.0


def phones(rng: np.random.Generator, nations: Integers) -> pa.Array:
    """Phone numbers whose first two digits tell the nation."""
    count = len(nations)
    parts = [digits(rng.integers(low, 10 * low, count)) for low in (100, 100, 1000)]
    return join(digits(nations + 10), *parts, between="-")


def addresses(rng: np.random.Generator, count: int) -> pa.Array:
    words = [draw(rng, COMMENT_WORDS, count) for _ in range(2)]
    return join(digits(rng.integers(1, 10_000, count)), *words, between=" ")


def comments(rng: np.random.Generator, count: int, words: tuple[int, int]) -> pa.Array:
    """Sentences of between so many words, drawn from a stock."""
    return draw(rng, stock(rng, words), count)


def stock(
    rng: np.random.Generator, words: tuple[int, int], pattern: Sequence[str] = (), every: int = 1
) -> list[str]:
    """Distinct-looking sentences; every so many of them hold the words of the pattern, in order and apart."""
    lengths = rng.integers(words[0], words[1] + 1, _COMMENTS).tolist()
    codes = rng.integers(0, len(COMMENT_WORDS), (_COMMENTS, words[1])).tolist()
    made = []
    for number, (length, chosen) in enumerate(zip(lengths, codes, strict=True)):
        sentence = [COMMENT_WORDS[code] for code in chosen[:length]]
        if pattern and number % every == 0:
            sentence[1:1] = [pattern[0], sentence[0], *pattern[1:]]
        made.append(" ".join(sentence))
    return made
