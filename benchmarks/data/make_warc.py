"""Makes WARC files as crawlers write them: pages with navigation, text and footers, in several languages.

    python benchmarks/data/make_warc.py --output warcs --files 4 --pages 500 --seed 1

Each page has a request and a response record, packed one by one. One in ten answers is no page (an error, an image);
one in ten pages is in German or French. The same seed makes the same files.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from paceline import emit
from paceline.curate.writers import make_record, pack_record

WORDS = {
    "en": "the of and to that have with be in it was for on are they this from had not but what all were "
    "when your can said there use each which she their will other about out many then them these "
    "some her would make like him into time has look two more write see number way could people than "
    "first water been call who find long down day get come made after",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an "
    "werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war "
    "haben nur oder aber vor zur bis mehr durch man sein wurde sei schon wenn immer Jahre Leute "
    "Wasser Zeit Stadt Wörter machen finden gehen lange zwischen",
    "fr": "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont "
    "avec son mais comme ou si leur elle deux aussi cette nous tout fait bien été temps même peut "
    "sans autre ces après où année ville eau mots faire trouver longtemps entre très quand encore "
    "jamais toujours chez depuis pendant beaucoup voilà",
}
LETTERS = "aeioubdfgklmnprstvw"
DATE = "2026-01-15T12:00:00Z"


def main() -> None:
    parser = argparse.ArgumentParser(description="make WARC files", allow_abbrev=False)
    parser.add_argument(
        "--benchmark-results-path", help="where a run under `paceline run` writes its results"
    )
    parser.add_argument("--output", type=Path, required=True, help="directory")
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--pages", type=int, default=200, help="answers a file")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    chance = random.Random(args.seed)
    for number in range(args.files):
        packed = map(pack_record, make_records(chance, number, args.pages))
        (args.output / f"crawl-{number:05d}.warc.gz").write_bytes(b"".join(packed))
    if args.benchmark_results_path is not None:
        emit.metrics({"is_success": True, "num_answers": args.files * args.pages})


def make_records(chance: random.Random, file: int, pages: int) -> Iterator[bytes]:
    info = b"software: paceline\r\nformat: WARC File Format 1.0\r\n"
    yield record(chance, "warcinfo", "", "application/warc-fields", info)
    for number in range(pages):
        url = f"https://www.site{chance.randrange(50)}.example/{file}/{number}"
        ask = f"GET {url} HTTP/1.1\r\nHost: example\r\n\r\n".encode()
        yield record(chance, "request", url, "application/http; msgtype=request", ask)
        yield record(chance, "response", url, "application/http; msgtype=response", make_answer(chance))


def record(chance: random.Random, kind: str, url: str, content_type: str, content: bytes) -> bytes:
    identity = UUID(int=chance.getrandbits(128), version=4)
    return make_record(kind, content, identity=identity, date=DATE, url=url, content_type=content_type)


def make_answer(chance: random.Random) -> bytes:
    what = chance.random()
    if what < 0.05:
        return (
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<html><body>Nothing here</body></html>"
        )
    if what < 0.1:
        return b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n" + chance.randbytes(2000)
    language = chance.choices(("en", "de", "fr"), (0.9, 0.05, 0.05))[0]
    body = make_page(chance, language).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def make_page(chance: random.Random, language: str) -> str:
    paragraphs = "".join(
        f"<p>{' '.join(make_sentence(chance, language) for _ in range(chance.randrange(2, 7)))}</p>\n"
        for _ in range(chance.randrange(3, 15))
    )
    links = "".join(f'<li><a href="/{make_word(chance)}">{make_word(chance)}</a></li>' for _ in range(12))
    return (
        f'<!DOCTYPE html><html lang="{language}"><head><meta charset="utf-8"><title>{make_word(chance)}</title>'
        "<style>body { margin: 0; padding: 0 }</style><script>var a = [1, 2, 3]; function f() { return a }</script>"
        f"</head><body><header><nav><ul>{links}</ul></nav></header>\n<main><article><h1>{make_word(chance)}</h1>\n"
        f"{paragraphs}</article></main>\n<footer><p>All rights reserved. <a href='/terms'>Terms</a></p></footer>"
        "</body></html>"
    )


def make_sentence(chance: random.Random, language: str) -> str:
    """Common words of the language among some that are made up."""
    words = chance.choices(WORDS[language].split(), k=chance.randrange(8, 16))
    words[chance.randrange(len(words))] = make_word(chance)
    return " ".join(words).capitalize() + "."


def make_word(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randrange(3, 10)))


if __name__ == "__main__":
    main()
