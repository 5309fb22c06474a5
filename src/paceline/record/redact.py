"""What a secret is; secrets are kept by name, and their values masked in everything that is written or shown.

Secret is a variable by its name (`is_secret_name`) or because the suite marks it, and the credentials in any URL. Sinks
ask `secret_values_in` for what is written out in their options.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

MASK = "***"
MIN_SECRET_LENGTH = 4
"""Of what a suite marks as secret; what is only found to be one has at least twice as many characters."""
NEVER_SECRET = frozenset({"true", "false", "null", "none", "yes", "no"})
TAKEN_OUT = "!"
"""Stands before a name, among the names that a suite marks, that `not_secrets` has taken out."""

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_PARTS = frozenset(
    {
        *("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PAT", "DSN", "JWT", "WEBHOOK"),
        *("AUTH", "OAUTH", "AUTHORIZATION", "CREDENTIAL", "CREDENTIALS", "APIKEY"),
    }
)
_SECRET_PAIRS = ("_API_KEY_", "_ACCESS_KEY_", "_PRIVATE_KEY_", "_SECRET_KEY_", "_CONNECTION_STRING_")
_SECRET_ENDINGS = frozenset({"KEY", "PWD"})  # as the last of several parts: `PWD` itself is a directory
_WHERE_IT_IS = frozenset({"FILE", "PATH", "DIR", "ENV", "SOCK", "MODE"})
_SECRET_PARAMETERS = frozenset({"key", "sig", "signature"})
_PLAIN_HEADERS = frozenset({"accept", "content-type", "user-agent"})
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,_]*(?:[eE][+-]?[0-9]+)?")
_SHORTEST_FOUND, _LONGEST_WORD = 2 * MIN_SECRET_LENGTH, 11
_USER_INFO = re.compile(r"(?<=://)([^/?#\s:]*)(:?)([^/?#\s]*)@")
_PARAMETER = re.compile(r"(?:(?<=[?&;\s])|^)([\w.-]+)=([^&;#\s]+)")
_AFTER_HOST = re.compile(r"[A-Za-z][\w+.-]*://[^/?#\s]*/?(\S*)")

_MASK_BYTES = MASK.encode()
_SCALARS = (str, int, float, type(None))
_SEQUENCES = (list, tuple, set, frozenset)
# Names, words and paths come again with every record; longer texts rarely do.
_REMEMBERED_TEXTS, _REMEMBERED_LENGTH = 4096, 200
_PERCENT = re.compile("%[0-9A-F]{2}")
_SAFE_RUN = re.compile(r"[A-Za-z0-9_.~-]+")


@lru_cache(_REMEMBERED_TEXTS)
def is_secret_name(name: str) -> bool:
    """Whether a variable or option of this name holds a secret, by whole parts of the name.

    `MAX_TOKENS` does not, `PWD` does not, and `TOKEN_FILE` only says where one is.
    """
    parts = [part.upper() for part in _PART.findall(name)]
    if not parts or parts[-1] in _WHERE_IT_IS:
        return False
    joined = f"_{'_'.join(parts)}_"
    return (
        not _SECRET_PARTS.isdisjoint(parts)
        or any(pair in joined for pair in _SECRET_PAIRS)
        or (len(parts) > 1 and parts[-1] in _SECRET_ENDINGS)
    )


def is_maskable(value: str) -> bool:
    """Whether a value that a suite marks is long and special enough to be masked everywhere."""
    return (
        len(value) >= MIN_SECRET_LENGTH and value.lower() not in NEVER_SECRET and bool(value.strip("* \t\n"))
    )


def looks_secret(value: str) -> bool:
    """Whether a value may be masked without a suite's word: it is long, and neither a number nor an ordinary word."""
    text = value.strip()
    is_word = text.isalpha() and len(text) <= _LONGEST_WORD
    return len(text) >= _SHORTEST_FOUND and not is_word and not _NUMBER.fullmatch(text) and is_maskable(text)


def secrets_of(name: str, value: str, names: Collection[str] = ()) -> Iterator[str]:
    """The secrets in a variable; `names` are those that a suite marks, with `TAKEN_OUT` before those it takes out."""
    if f"{TAKEN_OUT}{name}" in names:
        return
    if name in names:
        # A value read from a file often ends with a newline that is gone where the value is used.
        yield from filter(is_maskable, (value, value.strip()))
    elif is_secret_name(name):
        yield from _whole_secret(value)
    yield from credentials_in(value)


def secret_values(environ: Mapping[str, str], names: Iterable[str] = ()) -> tuple[str, ...]:
    """The values to mask: the secrets of all variables, by the rules of `secrets_of`."""
    known = frozenset(names)
    found = (secret for name, value in environ.items() for secret in secrets_of(name, value, known))
    return tuple(dict.fromkeys(found))


def secret_values_in(options: Any, kind: str = "") -> tuple[str, ...]:
    """The secrets that are written out in the options of a sink of this type.

    These are texts under keys with a secret's name, all values of `headers`, the path of a webhook's URL, and the
    credentials in any URL.
    """
    return tuple(dict.fromkeys(_written_secrets(options, (kind,))))


def credentials_in(text: str) -> Iterator[str]:
    """The password in a URL, or the token in its place, and parameters such as `password=`, decoded and as written."""
    if "@" in text:
        for user, colon, password in _USER_INFO.findall(text):
            is_token = not colon or password in ("", "x-oauth-basic")
            secret = user if is_token else password
            yield from filter(looks_secret, (unquote(secret), secret))
    if "=" in text:
        for name, value in _PARAMETER.findall(text):
            if is_secret_name(name) or ("://" in text and name.lower() in _SECRET_PARAMETERS):
                yield from filter(looks_secret, (unquote_plus(value), value))


def mask_urls(value: Any) -> Any:
    """Nested data with the credentials in its URLs masked, however short they are."""
    if isinstance(value, str):
        if "://" not in value:
            return value
        return _PARAMETER.sub(_mask_parameter, _USER_INFO.sub(_mask_user_info, value))
    if isinstance(value, Mapping):
        return {key: mask_urls(item) for key, item in value.items()}
    return [mask_urls(item) for item in value] if isinstance(value, list | tuple) else value


def _mask_user_info(match: re.Match[str]) -> str:
    user, colon, password = match.groups()
    if not colon:
        return f"{MASK}@" if looks_secret(user) else match[0]
    return f"{MASK if password in ('', 'x-oauth-basic') and user else user}:{MASK}@"


def _mask_parameter(match: re.Match[str]) -> str:
    is_secret = match[1].lower() in _SECRET_PARAMETERS or is_secret_name(match[1])
    return f"{match[1]}={MASK}" if is_secret else match[0]


def _whole_secret(value: str) -> Iterator[str]:
    """A value as a secret; of a URL, such as a webhook's, that is what follows the host, and each part of it."""
    url = _AFTER_HOST.fullmatch(value.strip())
    yield from filter(looks_secret, (url[1], *url[1].split("/")) if url else (value, value.strip()))


def _written_secrets(value: Any, above: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _written_secrets(item, (*above, str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _written_secrets(item, above)
    elif isinstance(value, str):
        if "headers" in above:
            words = () if above[-1].lower() in _PLAIN_HEADERS else (value, *value.split())
            yield from filter(looks_secret, words)
        elif is_secret_name(above[-1]) or ("://" in value and any("webhook" in key.lower() for key in above)):
            yield from _whole_secret(value)
        yield from credentials_in(value)


class Redactor:
    """Masks secret values in text, in nested data and in streams of bytes, however they are escaped."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._masker = _Masker([value for value in dict.fromkeys(values) if is_maskable(value)])
        self._masked_again = lru_cache(_REMEMBERED_TEXTS)(self._masked)

    def __bool__(self) -> bool:
        return bool(self._masker.forms)

    def text(self, text: str) -> str:
        """The text with every secret masked; the same object when there is none."""
        if not self._masker.forms:
            return text
        return self._masked_again(text) if len(text) <= _REMEMBERED_LENGTH else self._masked(text)

    def _masked(self, text: str) -> str:
        return _decode(self._masker.mask(_encode(text))) if self._masker.found_in_text(text) else text

    def name(self, name: Any) -> Any:
        """The name of a metric, or another key, masked such that two names never become one."""
        if not isinstance(name, str):
            return self.data(name)
        masked = self.text(name)
        return name if masked == name else masked.replace(MASK, f"{MASK}{_mark_of(name)}", 1)

    def finds(self, data: bytes) -> bool:
        """Whether a secret is somewhere in these bytes."""
        return self._masker.found_in(data)

    def data(self, value: Any) -> Any:
        """Nested mappings and sequences with every secret masked in their strings and keys.

        For data that is a user's throughout: a key of ours can be the value of a secret, too.
        """
        return self._nested(value, self.name) if self._may_have_secret(value) else value

    def values(self, value: Any) -> Any:
        """The same with all keys left as they are."""
        return self._nested(value, None) if self._may_have_secret(value) else value

    def _may_have_secret(self, value: Any) -> bool:
        if isinstance(value, _SCALARS):
            return isinstance(value, str)  # `text` looks itself.
        texts: list[str] = []
        _gather(value, texts)
        return bool(texts) and self._masker.found_in_any(texts)

    def _nested(self, value: Any, mask_key: Callable[[Any], Any] | None) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                mask_key(key) if mask_key else key: self._nested(item, mask_key)
                for key, item in value.items()
            }
        if isinstance(value, tuple):
            return tuple(self._nested(item, mask_key) for item in value)
        if isinstance(value, list):
            return [self._nested(item, mask_key) for item in value]
        if isinstance(value, set | frozenset):
            return type(value)(self._nested(item, mask_key) for item in value)
        return value

    def stream(self) -> "RedactedStream":
        """A filter for one stream of bytes that arrives in pieces."""
        return RedactedStream(self._masker)


class RedactedStream:
    """Masks secrets in a stream, also those cut by a chunk's border; cut anywhere, the output is the same."""

    def __init__(self, masker: "_Masker") -> None:
        self._masker = masker
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can be written now: all of it, unless its end could be the beginning of a secret."""
        data = self._held + chunk if self._held else chunk
        hold = self._masker.hold_position(data)
        if self._masker.found_in(data):
            return self._feed_masked(data, hold)
        self._held = data[hold:]
        return data[:hold]

    def flush(self) -> bytes:
        """The rest, at the stream's end."""
        rest, self._held = self._masker.mask(self._held), b""
        return rest

    def _feed_masked(self, data: bytes, hold: int) -> bytes:
        parts: list[bytes] = []
        done = 0
        for match in self._masker.matches(data):
            if match.start() >= hold:  # It may still grow into a longer secret.
                break
            parts += (data[done : match.start()], _MASK_BYTES)
            done = match.end()
            if done > hold:  # What seemed to begin another secret was part of this one.
                hold = done + self._masker.hold_position(data[done:])
        parts.append(data[done:hold])
        self._held = data[hold:]
        return b"".join(parts)


class _Masker:
    """Finds and replaces the written forms of all secrets, the longest first."""

    def __init__(self, values: Sequence[str]) -> None:
        forms = {_encode(form) for value in values for form in _written_forms(value)}
        self.forms = sorted(forms, key=lambda form: (-len(form), form))
        # One substring search a secret, not one a form: plain search is ten times as fast as an alternation.
        anchors = {_encode(anchor) for value in values for anchor in _anchors(value)}
        kept = [one for one in anchors if not any(other != one and other in one for other in anchors)]
        # Empty unless all are ASCII: any other may be written in bytes that are not those of its text.
        self._plain_anchors = [one.decode() for one in kept] if b"".join(kept).isascii() else []
        self._anchored = [(anchor, [form for form in self.forms if anchor in form]) for anchor in kept]
        self._pattern = re.compile(b"|".join(map(re.escape, self.forms)))
        self._longest = max(map(len, forms), default=0)
        self._heads = {form[:MIN_SECRET_LENGTH] for form in forms}
        self._short_prefixes = {form[:size] for form in forms for size in range(1, MIN_SECRET_LENGTH)}

    def found_in(self, data: bytes) -> bool:
        # Loops, not generators: for the short chunks of live output a generator costs more than the search.
        for anchor, forms in self._anchored:
            if anchor in data:
                for form in forms:
                    if form in data:
                        return True
        return False

    def found_in_text(self, text: str) -> bool:
        # The same in text as in bytes, if it is plain letters that are looked for, and three times as fast.
        if self._plain_anchors:
            for anchor in self._plain_anchors:
                if anchor in text:
                    break
            else:
                return False
        return self.found_in(_encode(text))

    def found_in_any(self, texts: Sequence[str]) -> bool:
        """Whether a secret may be in one of these texts: one search in all of them, as starting it is what costs."""
        if not self._plain_anchors:
            return any(self.found_in(_encode(text)) for text in texts)
        joined = "\n".join(texts)
        return any(anchor in joined for anchor in self._plain_anchors)

    def mask(self, data: bytes) -> bytes:
        return self._pattern.sub(_MASK_BYTES, data) if self.found_in(data) else data

    def matches(self, data: bytes) -> Iterator[re.Match[bytes]]:
        return self._pattern.finditer(data)

    def hold_position(self, data: bytes) -> int:
        """Where the longest ending begins that a further chunk could complete to a secret."""
        start = max(0, len(data) - self._longest + 1)
        positions = (_find_all(data, head, start) for head in self._heads)
        for position in sorted(chain.from_iterable(positions)):
            if self._is_open(data[position:]):
                return position
        for size in range(min(MIN_SECRET_LENGTH - 1, len(data)), 0, -1):
            if data[-size:] in self._short_prefixes:
                return len(data) - size
        return len(data)

    def _is_open(self, ending: bytes) -> bool:
        return any(len(form) > len(ending) and form.startswith(ending) for form in self.forms)


@lru_cache(_REMEMBERED_TEXTS)
def _mark_of(name: str) -> str:
    """Tells masked names apart; slow to compute, so that no list of guesses can be tried against it."""
    return hashlib.pbkdf2_hmac("sha256", _encode(name), b"paceline name", 50_000).hex()[:8]


def _gather(value: Any, texts: list[str]) -> None:
    """Add all strings in nested data, its keys included."""
    if isinstance(value, _SCALARS):
        if isinstance(value, str):
            texts.append(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _gather(key, texts)
            _gather(item, texts)
    elif isinstance(value, _SEQUENCES):
        for item in value:
            _gather(item, texts)


def _find_all(data: bytes, head: bytes, start: int) -> Iterator[int]:
    position = data.find(head, start)
    while position >= 0:
        yield position
        position = data.find(head, position + 1)


def _written_forms(value: str) -> Iterator[str]:
    """How a value may be written: plain, percent-encoded, inside JSON, Python or shell quotes."""
    yield value
    data = _encode(value)
    for encoded in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield encoded
        yield _PERCENT.sub(lambda match: match[0].lower(), encoded)
    for escaped in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
    yield repr(value)[1:-1]
    yield shlex.quote(value)[1:-1] if "'" in value else value


def _anchors(value: str) -> Iterator[str]:
    """Substrings of which one is in every written form: the longest run that no escaping changes."""
    longest = max(_SAFE_RUN.findall(value), key=len, default="")
    if len(longest) >= MIN_SECRET_LENGTH:
        yield longest
    else:
        yield from _written_forms(value)


def _encode(text: str) -> bytes:
    # Environment values hold undecodable bytes as surrogates, and a benchmark prints the bytes.
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
