"""Words, names and sentences that RULER's contexts are made of; all invented."""

from collections.abc import Callable
from random import Random

NOISE = (
    "The meadow is wet. The sky is wide. The lamp is lit. Here we rest. Up and down the lane we walk. "
    "There and home once more."
)
_SUBJECTS = (
    "a patient reader",
    "the older of the two clerks",
    "nobody in the valley",
    "every second letter",
    "the river",
    "a good question",
    "the keeper of the records",
    "an unfinished plan",
    "whoever builds slowly",
    "the last train",
)
_VERBS = (
    "seldom hurries",
    "returns before the first snow",
    "costs more than it seems",
    "has two sides",
    "was mentioned only once",
    "changes nothing at first",
    "keeps its own calendar",
    "learns from what went wrong",
    "is easier to begin than to end",
    "waits for better weather",
)
_LINKS = ("because", "although", "and yet", "so that", "while", "unless")
ADJECTIVES = (
    "amber",
    "brisk",
    "calm",
    "dusty",
    "eager",
    "faint",
    "gentle",
    "hollow",
    "ivory",
    "jolly",
    "keen",
    "lucid",
    "mellow",
    "noble",
    "opal",
    "proud",
    "quiet",
    "rustic",
    "silver",
    "tidy",
    "urban",
    "vivid",
    "warm",
    "young",
)
NOUNS = (
    "anchor",
    "basket",
    "candle",
    "dagger",
    "engine",
    "falcon",
    "garden",
    "hammer",
    "island",
    "jacket",
    "kettle",
    "lantern",
    "magnet",
    "needle",
    "orchard",
    "pillar",
    "quarry",
    "ribbon",
    "saddle",
    "temple",
    "urn",
    "valley",
    "window",
    "yarrow",
)
_SYLLABLES = (
    "ba",
    "de",
    "fo",
    "gu",
    "ka",
    "le",
    "mi",
    "no",
    "pa",
    "re",
    "si",
    "tu",
    "va",
    "wo",
    "ze",
    "lin",
    "mar",
    "ten",
)


def sentence(random: Random) -> str:
    """One sentence of an essay about nothing."""
    parts = (random.choice(_SUBJECTS), random.choice(_VERBS), random.choice(_LINKS))
    text = f"{parts[0]} {parts[1]}, {parts[2]} {random.choice(_SUBJECTS)} {random.choice(_VERBS)}."
    return text[0].upper() + text[1:]


def invented_word(random: Random, syllables: int = 3) -> str:
    """A word of no language."""
    return "".join(random.choice(_SYLLABLES) for _ in range(syllables))


def distinct(random: Random, count: int, make: Callable[[Random], str]) -> list[str]:
    """So many different results of a function of a random generator."""
    found: dict[str, None] = {}
    while len(found) < count:
        found.setdefault(make(random))
    return list(found)


def word_key(random: Random) -> str:
    return f"{random.choice(ADJECTIVES)}-{random.choice(NOUNS)}-{random.randrange(100)}"


def number_value(random: Random) -> str:
    return str(random.randrange(1_000_000, 10_000_000))


def uuid_value(random: Random) -> str:
    digits = f"{random.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
