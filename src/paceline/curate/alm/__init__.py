"""The audio manifest pipeline: read entries, build windows, drop windows that overlap too much."""

from paceline.curate.alm.builder import ALMDataBuilderStage
from paceline.curate.alm.overlap import ALMDataOverlapStage
from paceline.curate.alm.tally import ALMManifestReader, ALMTallyStage, ManifestWriterStage

__all__ = [
    "ALMDataBuilderStage",
    "ALMDataOverlapStage",
    "ALMManifestReader",
    "ALMTallyStage",
    "ManifestWriterStage",
]
