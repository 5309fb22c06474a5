"""RULER's thirteen tasks, each a function of a random generator and of how much filler there is to be."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from paceline.evals.benchmarks import ruler_text as text


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """A context with its question and answers."""

    context: str
    question: str
    answer_prefix: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needles:
    """How a needle task is made: the haystack, what is hidden in it, what is asked."""

    haystack: str
    uuid_keys: bool = False
    uuid_values: bool = False
    keys: int = 1
    values: int = 1
    queries: int = 1


NEEDLES: Mapping[str, Needles] = {
    "niah_single_1": Needles(haystack="noise"),
    "niah_single_2": Needles(haystack="essay"),
    "niah_single_3": Needles(haystack="essay", uuid_values=True),
    "niah_multikey_1": Needles(haystack="essay", keys=4),
    "niah_multikey_2": Needles(haystack="needles"),
    "niah_multikey_3": Needles(haystack="needles", uuid_keys=True, uuid_values=True),
    "niah_multivalue": Needles(haystack="essay", values=4),
    "niah_multiquery": Needles(haystack="essay", keys=4, queries=4),
}
BUDGETS: Mapping[str, int] = {
    **dict.fromkeys(NEEDLES, 128),
    "vt": 30,
    "cwe": 120,
    "fwe": 50,
    "qa_1": 32,
    "qa_2": 32,
}
TASKS = tuple(BUDGETS)


def make(task: str, random: Random, amount: int) -> Puzzle:
    """A puzzle with so much filler; equal generators give equal puzzles."""
    if task in NEEDLES:
        return _needles(NEEDLES[task], random, amount)
    return _OTHERS[task](random, amount)


def _needles(kind: Needles, random: Random, amount: int) -> Puzzle:
    new_key = text.uuid_value if kind.uuid_keys else text.word_key
    new_value = text.uuid_value if kind.uuid_values else text.number_value
    what = "uuid" if kind.uuid_values else "number"
    keys = text.distinct(random, kind.keys, new_key)
    values = {key: text.distinct(random, kind.values, new_value) for key in keys}
    lines = [_needle(what, key, value) for key in keys for value in values[key]]
    hay = _haystack(kind.haystack, what, (new_key, new_value), random, amount)
    asked = random.sample(keys, kind.queries)
    answers = tuple(value for key in asked for value in values[key])
    plural = len(answers) > 1
    whose = f"the special magic {what}{'s' * plural} for {_listed(asked)} mentioned in the text"
    return Puzzle(
        context=f"Some special magic {what}s are hidden in the following text. Remember them; you will be asked.\n"
        + _mixed(hay, lines, random)
        + "\n",
        question=f"What {'are all' if plural else 'is'} {whose}?",
        answer_prefix=f" T{whose[1:]} {'are' if plural else 'is'}",
        answers=answers,
    )


def _needle(what: str, key: str, value: str) -> str:
    return f"One of the special magic {what}s for {key} is: {value}."


def _haystack(
    kind: str,
    what: str,
    new: tuple[Callable[[Random], str], Callable[[Random], str]],
    random: Random,
    amount: int,
) -> list[str]:
    if kind == "noise":
        return [text.NOISE] * amount
    if kind == "essay":
        return [text.sentence(random) for _ in range(amount)]
    return [_needle(what, new[0](random), new[1](random)) for _ in range(amount)]


def _mixed(filler: Sequence[str], lines: Sequence[str], random: Random) -> str:
    """The lines at random depths of the filler."""
    places = sorted(random.randint(0, len(filler)) for _ in lines)
    shuffled = random.sample(lines, len(lines))
    mixed = list(filler)
    for place, line in zip(reversed(places), shuffled, strict=True):
        mixed.insert(place, line)
    return "\n".join(mixed)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])}, and {names[-1]}"


_HOPS = 4


def _variable_tracking(random: Random, amount: int) -> Puzzle:
    """One chain of assignments that begins with a number; all of its variables are the answer."""
    names = text.distinct(random, _HOPS + 1, lambda r: "".join(r.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=5)))
    value = str(random.randrange(10_000, 100_000))
    chain = [f"VAR {names[0]} = {value}"]
    chain += [f"VAR {after} = VAR {before}" for before, after in itertools.pairwise(names)]
    places = sorted(random.randint(0, amount) for _ in chain)
    lines: list[str] = [text.NOISE] * amount
    for place, line in zip(reversed(places), reversed(chain), strict=True):
        lines.insert(place, line)
    return Puzzle(
        context="Remember the assignments of variables hidden in the following text.\n"
        + "\n".join(lines)
        + "\n",
        question=f"Question: Find all variables that are assigned the value {value} in the text above.",
        answer_prefix=f" Answer: These {len(names)} variables have the value {value}, directly or through others:",
        answers=tuple(names),
    )


_COMMON_WORDS, _COMMON_TIMES, _RARE_TIMES = 10, 30, 3


def _common_words(random: Random, amount: int) -> Puzzle:
    """Ten words occur thirty times each among others that occur three times."""
    words = text.distinct(random, _COMMON_WORDS + amount, text.invented_word)
    common, rare = words[:_COMMON_WORDS], words[_COMMON_WORDS:]
    listed = [*common * _COMMON_TIMES, *rare * _RARE_TIMES]
    random.shuffle(listed)
    numbered = " ".join(f"{number}. {word}" for number, word in enumerate(listed, start=1))
    return Puzzle(
        context=f"Below is a numbered list of words. Some of them occur more often than the others.\n{numbered}\n",
        question="Question: What are the 10 most common words in the list?",
        answer_prefix=" Answer: The 10 most common words in the list are:",
        answers=tuple(common),
    )


_FREQUENT_WORDS, _ZIPF = 3, 2.0


def _frequent_words(random: Random, amount: int) -> Puzzle:
    """Invented words whose frequencies fall with the square of their rank; the first three are the answer."""
    vocabulary = text.distinct(random, 50, text.invented_word)
    counts = [max(1, round((amount + 20) / rank**_ZIPF)) for rank in range(1, len(vocabulary) + 1)]
    counts[:4] = [
        counts[0] + 3,
        counts[1] + 2,
        counts[2] + 1,
        counts[3],
    ]  # no ties at the border of the answer
    coded = [word for word, count in zip(vocabulary, counts, strict=True) for _ in range(count)]
    random.shuffle(coded)
    most = tuple(word for word, _ in Counter(coded).most_common(_FREQUENT_WORDS))
    return Puzzle(
        context=f"Read the following coded text and keep track of the frequency of each word.\n{' '.join(coded)}\n",
        question="Question: What are the three most frequent words in the above coded text?",
        answer_prefix=" Answer: According to the coded text above, the three most frequent words are:",
        answers=most,
    )


def _documents(random: Random, amount: int) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Documents about invented towns, with the facts that are in them: town, founder, the founder's craft."""
    towns = text.distinct(random, amount + 1, text.invented_word)
    people = text.distinct(
        random, amount + 1, lambda r: f"{text.invented_word(r, 2)} {text.invented_word(r, 2)}"
    )
    facts = [
        (town.title(), person.title(), f"{random.choice(text.ADJECTIVES)} {random.choice(text.NOUNS)}")
        for town, person in zip(towns, people, strict=True)
    ]
    pages = []
    for town, person, craft in facts:
        pages.append(f"{town} was founded by {person}. {text.sentence(random)}")
        pages.append(f"{person} became known for a {craft}. {text.sentence(random)}")
    random.shuffle(pages)
    return pages, facts


def _documents_puzzle(pages: Sequence[str], question: str, answer: str) -> Puzzle:
    numbered = "\n\n".join(f"Document {number}:\n{page}" for number, page in enumerate(pages, start=1))
    return Puzzle(
        context=f"Answer the question from the documents. Give the answer only.\n\n{numbered}\n\n",
        question=f"Question: {question}",
        answer_prefix=" Answer:",
        answers=(answer,),
    )


def _one_hop(random: Random, amount: int) -> Puzzle:
    pages, facts = _documents(random, amount)
    town, person, _ = random.choice(facts)
    return _documents_puzzle(pages, f"Who founded {town}?", person)


def _two_hops(random: Random, amount: int) -> Puzzle:
    pages, facts = _documents(random, amount)
    town, _, craft = random.choice(facts)
    return _documents_puzzle(pages, f"What did the founder of {town} become known for?", craft)


_OTHERS: Mapping[str, Callable[[Random, int], Puzzle]] = {
    "vt": _variable_tracking,
    "cwe": _common_words,
    "fwe": _frequent_words,
    "qa_1": _one_hop,
    "qa_2": _two_hops,
}
