"""Titles as parts of addresses."""

import re
import unicodedata

OTHER = re.compile(r"[^a-z0-9]+")


def slugify(title: str) -> str:
    """Small letters, digits and single dashes."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return OTHER.sub("-", plain.lower()).strip("-")


def slugify_all(titles: list[str]) -> dict[str, str]:
    """A slug for each title; a number is added to one that was there before."""
    slugs: dict[str, str] = {}
    taken: dict[str, int] = {}
    for title in titles:
        slug = slugify(title)
        taken[slug] = taken.get(slug, 0) + 1
        slugs[title] = slug if taken[slug] == 1 else f"{slug}-{taken[slug]}"
    return slugs
