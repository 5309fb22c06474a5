"""Short functions in one class without a set-up, so that a sample has many calls."""

import datetime
import decimal
import fractions
import math
import statistics

from .clock import timer as timer


class Arithmetic:
    values = tuple(number / 3 + 1 for number in range(200))

    def time_sqrt(self):
        for value in self.values:
            math.sqrt(value)

    def time_sin(self):
        for value in self.values:
            math.sin(value)

    def time_exp(self):
        for value in self.values:
            math.exp(value / 100)

    def time_log(self):
        for value in self.values:
            math.log(value)

    def time_floor(self):
        for value in self.values:
            math.floor(value)

    def time_round(self):
        for value in self.values:
            round(value, 2)

    def time_divmod(self):
        for value in self.values:
            divmod(value, 7)

    def time_power(self):
        for value in self.values:
            value**3

    def time_text(self):
        for value in self.values:
            f"{value:.3f}"

    def time_parse(self):
        for value in self.values:
            float(f"{value}e3")

    def time_hypot(self):
        for value in self.values:
            math.hypot(value, 3)


class Exact:
    def time_decimals(self):
        total = decimal.Decimal(0)
        for number in range(1, 200):
            total += decimal.Decimal(1) / number

    def time_fractions(self):
        total = fractions.Fraction(0)
        for number in range(1, 30):
            total += fractions.Fraction(1, number)

    def time_mean(self):
        statistics.fmean(range(2000))

    def time_median(self):
        statistics.median(range(2000))

    def time_dates(self):
        day = datetime.date(2020, 1, 1)
        for _ in range(200):
            day += datetime.timedelta(days=1)
