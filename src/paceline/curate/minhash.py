"""MinHash signatures of texts, by the definition that datasketch 2 calls `affine32`.

The shingle's hash goes through the finisher of MurmurHash3, then through `num_perm` maps h -> a·h + b modulo 2^32;
the signature is the least value of each. Given the same 32-bit hashes, signatures are equal to datasketch's.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from paceline.curate.dedup import Fingerprints, batch_key, id_array, text_bytes
from paceline.curate.documents import Documents
from paceline.curate.errors import PipelineError
from paceline.curate.shingles import Bytes, Hashes32, Places, Shingles, shingle
from paceline.curate.stage import Stage
from paceline.curate.task import Task

Signatures = npt.NDArray[np.uint32]
EMPTY = np.uint32(0xFFFFFFFF)
# Few enough shingles for the cache, enough to make numpy's cost a call small beside the work.
CHUNK_SHINGLES = 65_536


def permutations(num_perm: int, seed: int = 1) -> tuple[Hashes32, Hashes32]:
    """The factors (odd, so that each map is one to one) and the summands."""
    chance = np.random.RandomState(seed)
    factors = chance.randint(0, 1 << 31, num_perm, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return factors, chance.randint(0, 1 << 32, num_perm, dtype=np.uint32)


def finish(hashes: Hashes32) -> Hashes32:
    """The 32-bit finisher of MurmurHash3."""
    mixed = hashes ^ (hashes >> np.uint32(16))
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return mixed


class MinHasher:
    """Makes the signatures of many texts together."""

    def __init__(self, *, num_perm: int = 128, shingle_words: int = 5, seed: int = 1) -> None:
        if num_perm < 1 or shingle_words < 1:
            raise PipelineError("minhash: the numbers of permutations and of words must be at least 1")
        self.num_perm = num_perm
        self.shingle_words = shingle_words
        self._factors, self._summands = permutations(num_perm, seed)

    def sign(self, data: Bytes, offsets: Places) -> Signatures:
        """A row a text; texts without a word are all `EMPTY`."""
        signatures = np.full((len(offsets) - 1, self.num_perm), EMPTY, dtype=np.uint32)
        begin = 0
        for part in _gather(shingle(data, offsets, self.shingle_words)):
            end = begin + len(part.counts)
            signatures[begin:end] = self.sign_shingles(part)
            begin = end
        return signatures

    def sign_shingles(self, part: Shingles) -> Signatures:
        """The signatures of texts whose shingles are known."""
        signatures = np.full((len(part.counts), self.num_perm), EMPTY, dtype=np.uint32)
        filled = np.flatnonzero(part.counts)
        if not len(filled):
            return signatures
        starts = (np.cumsum(part.counts) - part.counts)[filled]
        hashes = finish(part.hashes)
        room = np.empty_like(hashes)
        least = np.empty((self.num_perm, len(filled)), dtype=np.uint32)
        for row, factor, summand in zip(least, self._factors, self._summands, strict=True):
            np.multiply(hashes, factor, out=room)
            np.add(room, summand, out=room)
            np.minimum.reduceat(room, starts, out=row)
        signatures[filled] = least.T
        return signatures


def _gather(blocks: Iterator[Shingles]) -> Iterator[Shingles]:
    """Blocks joined until there are enough shingles for the loop over permutations to pay."""
    held: list[Shingles] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block.hashes)
        if size >= CHUNK_SHINGLES:
            yield _join(held)
            held, size = [], 0
    if held:
        yield _join(held)


def _join(blocks: list[Shingles]) -> Shingles:
    return Shingles(
        hashes=np.concatenate([block.hashes for block in blocks]),
        counts=np.concatenate([block.counts for block in blocks]),
    )


class MinHashStage(Stage):
    """Batches of documents -> their signatures."""

    name = "minhash"

    def __init__(self, hasher: MinHasher, *, text_field: str, id_field: str) -> None:
        self.hasher = hasher
        self.text_field = text_field
        self.id_field = id_field
        self._empty = 0

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        values = self.hasher.sign(*text_bytes(documents, self.text_field))
        self._empty += int((values == EMPTY).all(axis=1).sum())
        ids = id_array(documents, self.id_field)
        return task.carrying(Fingerprints(batch=batch_key(documents.source), values=values, ids=ids))

    def take_metrics(self) -> Mapping[str, float]:
        empty, self._empty = self._empty, 0
        return {"without_words": float(empty)}
