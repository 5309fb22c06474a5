"""What the tests of the configuration share: files written and loaded in one call."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from paceline.config.load import Loaded, load
from paceline.errors import ConfigError

ENTRY = "entries: [{name: e, script: e.py}]\n"


class ConfigFiles:
    """A directory of configuration files a.yaml, b.yaml, …"""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, *texts: str) -> list[Path]:
        paths = [self.directory / f"{letter}.yaml" for letter, _ in zip("abcdefgh", texts, strict=False)]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(dedent(text))
        return paths

    def load(
        self,
        *texts: str,
        environ: Mapping[str, str] | None = None,
        sinks: Sequence[str] = (),
        datasets: Path | None = None,
    ) -> Loaded:
        paths = self.write(*texts)
        return load(paths, environ=environ or {}, sinks=sinks, datasets=datasets)

    def problems(self, *texts: str, **options: Any) -> list[str]:
        """The lines of the error, with file names relative to the directory."""
        with pytest.raises(ConfigError) as caught:
            self.load(*texts, **options)
        return str(caught.value).replace(f"{self.directory}/", "").splitlines()
