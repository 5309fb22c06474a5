"""From signatures to groups of similar documents: buckets by bands, comparison, connected components."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from paceline.curate.dedup import first_of_each, hash_rows
from paceline.curate.errors import PipelineError
from paceline.curate.minhash import BYTE_BASE, EMPTY, Hashes64, Places, Signatures

# Pairs whose signatures are compared at once: some ten megabytes.
CHUNK_PAIRS = 16_384
# Signatures whose bands are taken at once: some two megabytes.
CHUNK_ROWS = 4096


class Components:
    """Union-find over arrays: all links of a call are made together. A component is known by its first member."""

    def __init__(self, size: int) -> None:
        self._parents: Places = np.arange(size)

    def link(self, left: Places, right: Places) -> None:
        """Join the components of each pair."""
        while len(left):
            left, right = self.roots(left), self.roots(right)
            apart = left != right
            left, right = left[apart], right[apart]
            # Parents are always smaller than their children, so there can be no circle.
            np.minimum.at(self._parents, np.maximum(left, right), np.minimum(left, right))

    def roots(self, members: Places | None = None) -> Places:
        """The first member of each one's component."""
        if members is None:
            members = np.arange(len(self._parents))
        found = self._parents[members]
        while True:
            further = self._parents[found]
            if np.array_equal(further, found):
                break
            found = further
        self._parents[members] = found
        return found


def group_similar(signatures: Signatures, *, bands: int, threshold: float) -> Places:
    """For each document the first of its group.

    Two documents are linked if a band of their signatures is equal and the share of equal values, which
    estimates the Jaccard similarity of their shingles, is at least `threshold`. Documents without a word stand alone.
    """
    check_bands(signatures.shape[1], bands, threshold)
    components = Components(len(signatures))
    filled = np.flatnonzero((signatures != EMPTY).any(axis=1))
    distinct = _link_equal(signatures, filled, components)
    for keys in _band_keys(signatures, distinct, bands):
        _link_buckets(signatures, distinct, keys, threshold, components)
    return components.roots()


def check_bands(num_perm: int, bands: int, threshold: float) -> None:
    """Refuse what would leave out part of a signature, or compare with no meaning."""
    if bands < 1 or num_perm % bands:
        raise PipelineError(f"bands: {num_perm} permutations cannot be shared out evenly among {bands}")
    if not 0.0 < threshold <= 1.0:
        raise PipelineError(f"threshold: {threshold} is not above 0 and at most 1")


def _link_equal(signatures: Signatures, filled: Places, components: Components) -> Places:
    """Link documents with equal signatures; only the first of each goes on to be compared."""
    # Sorting whole signatures would cost more than all the rest; 128 bits stand for them, as for texts.
    first = first_of_each(hash_rows(signatures)[filled])
    components.link(filled, filled[first])
    return np.asarray(filled[first == np.arange(len(filled))])


def _band_keys(signatures: Signatures, chosen: Places, bands: int) -> Hashes64:
    """A row a band: a number a document for its part of the signature; those that share one are compared later."""
    keys = np.zeros((bands, len(chosen)), dtype=np.uint64)
    values = signatures.shape[1] // bands
    for begin in range(0, len(chosen), CHUNK_ROWS):
        # Column after column, in pieces that stay in the cache.
        columns = np.ascontiguousarray(signatures[chosen[begin : begin + CHUNK_ROWS]].T)
        some = keys[:, begin : begin + CHUNK_ROWS]
        for place in range(values):
            some ^= columns[place::values]
            some *= np.uint64(BYTE_BASE)
            some ^= some >> np.uint64(31)
    return keys


def _link_buckets(
    signatures: Signatures, members: Places, keys: Hashes64, threshold: float, components: Components
) -> None:
    order = np.argsort(keys)
    keys, members = keys[order], members[order]
    distance = 1
    while True:
        near = np.flatnonzero(keys[distance:] == keys[:-distance]) if distance < len(keys) else order[:0]
        if not len(near):
            return
        left, right = members[near], members[near + distance]
        apart = components.roots(left) != components.roots(right)
        for some in _chunks(np.flatnonzero(apart)):
            equal = (signatures[left[some]] == signatures[right[some]]).mean(axis=1)
            similar = some[equal >= threshold]
            components.link(left[similar], right[similar])
        keys, members = _unsettled(keys, members, components)
        distance += 1


def _unsettled(keys: Hashes64, members: Places, components: Components) -> tuple[Hashes64, Places]:
    """Only buckets that hold several components: in the others there is nothing left to link."""
    roots = components.roots(members)
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    several = np.minimum.reduceat(roots, begins) != np.maximum.reduceat(roots, begins)
    sizes = np.diff(np.append(begins, len(keys)))
    stays = np.repeat(several, sizes)
    return keys[stays], members[stays]


def _chunks(places: npt.NDArray[np.int64]) -> Iterator[Places]:
    for begin in range(0, len(places), CHUNK_PAIRS):
        yield places[begin : begin + CHUNK_PAIRS]
