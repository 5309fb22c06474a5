"""Parameters of many kinds, and classes that inherit their benchmarks."""

import string
import textwrap

from ..clock import timer as timer


class Base:
    text = string.ascii_letters * 200

    def time_upper(self):
        for _ in range(100):
            self.text.upper()

    def time_count(self):
        for _ in range(100):
            self.text.count("xyz")

    def time_split(self):
        self.text.split("a")


class Shorter(Base):
    text = string.ascii_letters * 50


class Wrapping:
    params = ([40, 80], [True, None, 1.5, "a, b=[c]"])
    param_names = ["width", "anything"]
    repeat = (2, 6, 5.0)

    def time_wrap(self, width, anything):
        textwrap.wrap("some words that do not fit " * 50, width)


Wrapping.time_wrap.benchmark_name = "nested.texts.Wrapping.time_wrap"
