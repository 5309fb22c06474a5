"""Whether two attentions differ: if they are the same, each pair of scores might as well be the other way round."""

from collections.abc import Sequence

_MOST_EXACT = 14  # Groups of samples up to which every exchange is tried, else many at random.
_EXCHANGES = 20_000


def exchange_test(differences: Sequence[float], *, seed: int = 0) -> float:
    """How probable so large a sum of differences is if each might as well have the other sign."""
    import numpy as np

    data = np.asarray([one for one in differences if one], dtype=float)
    if not data.size:
        return 1.0
    least = abs(data.sum()) - 1e-9 * np.abs(data).sum()
    if data.size <= _MOST_EXACT:
        bits = np.arange(2**data.size)[:, None] >> np.arange(data.size) & 1
        return float((np.abs((1 - 2 * bits) @ data) >= least).mean())
    random = np.random.default_rng(seed)
    batch = max(1, 4_000_000 // data.size)
    hits = sum(
        int(
            (
                np.abs(random.choice((-1.0, 1.0), (min(batch, _EXCHANGES - done), data.size)) @ data) >= least
            ).sum()
        )
        for done in range(0, _EXCHANGES, batch)
    )
    return (hits + 1) / (_EXCHANGES + 1)
