"""Functions without a class: attributes are set on them."""

import hashlib
import json
import re
import zlib

from .clock import timer as timer

DATA = {f"key {number}": [number, number / 7, str(number)] for number in range(300)}
TEXT = json.dumps(DATA)
RAW = TEXT.encode()
PACKED = zlib.compress(RAW)
WORDS = re.compile(r"[a-z]+ \d+")
NUMBERS = [number * 7919 % 10007 for number in range(3000)]


def time_dumps():
    json.dumps(DATA)


def time_loads():
    json.loads(TEXT)


def time_compress():
    zlib.compress(RAW)


def time_decompress():
    zlib.decompress(PACKED)


def time_sha256():
    hashlib.sha256(RAW).hexdigest()


def time_find_words():
    WORDS.findall(TEXT)


def time_sort():
    sorted(NUMBERS)


def time_sort_by_key():
    sorted(NUMBERS, key=str)


def time_set():
    set(NUMBERS)


def time_join():
    ",".join(map(str, NUMBERS))


def time_loop():
    total = 0
    for number in NUMBERS:
        total += number


def time_few_calls():
    sum(NUMBERS)


time_few_calls.number = 20
time_few_calls.repeat = 15
time_few_calls.rounds = 1
time_few_calls.version = "2"
time_few_calls.pretty_name = "sum of 3000 numbers"


def timeraw_sum():
    return "sum(numbers)", "numbers = list(range(300_000))"


timeraw_sum.number = 3
timeraw_sum.processes = 1


def timeraw_sort():
    return (
        """
    sorted(numbers)
    """,
        """
    numbers = [number * 7919 % 100_003 for number in range(100_000)]
    """,
    )


def mem_list():
    return [0] * 1000


def mem_dict():
    return {number: str(number) for number in range(1000)}


def peakmem_nothing():
    """What the process takes that runs the others."""


def peakmem_list():
    return [0] * 10_000_000


def track_size():
    return len(PACKED)


track_size.unit = "bytes"


def track_ratio():
    return len(RAW) / len(PACKED)


def helper_that_is_no_benchmark():
    raise AssertionError("never called")
