"""Reading ALM manifests."""

from collections.abc import Sequence

from paceline.curate.files import MAX_LINE_BYTES, RANGE_BYTES, FilePartitionStage
from paceline.curate.jsonl import JsonlReaderStage
from paceline.curate.stage import CompositeStage, Stage


class ALMManifestReader(CompositeStage):
    """Manifests (JSON Lines; a path, a directory, or several) -> a task an entry, `repeat_factor` times."""

    name = "alm_manifest_reader"

    def __init__(
        self,
        manifest_path: str | Sequence[str],
        *,
        repeat_factor: int = 1,
        range_bytes: int = RANGE_BYTES,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.manifest_path = manifest_path
        self.repeat_factor = repeat_factor
        self.range_bytes = range_bytes
        self.max_line_bytes = max_line_bytes

    def decompose(self) -> Sequence[Stage]:
        partition = FilePartitionStage(
            self.manifest_path,
            suffixes=(".jsonl", ".json"),
            range_bytes=self.range_bytes,
            repeat_factor=self.repeat_factor,
        )
        return partition, JsonlReaderStage(max_line_bytes=self.max_line_bytes)
