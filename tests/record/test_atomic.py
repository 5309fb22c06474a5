from pathlib import Path
from typing import Any

import pytest

from paceline.record.files import write_atomic
from record.session_dirs import names_in


class TestWriteAtomic:
    def test_the_file_is_there_whole_and_alone(self, tmp_path: Path) -> None:
        write_atomic(tmp_path / "a", b"old")
        write_atomic(tmp_path / "a", iter([b"new", b" parts"]))
        assert (tmp_path / "a").read_bytes() == b"new parts"
        assert names_in(tmp_path) == ["a"]

    def test_a_failure_keeps_the_old_file_and_leaves_nothing(self, tmp_path: Path) -> None:
        def parts() -> Any:
            yield b"half"
            raise OSError(28, "No space left on device")

        write_atomic(tmp_path / "a", b"old")
        with pytest.raises(OSError, match="No space"):
            write_atomic(tmp_path / "a", parts())
        assert (tmp_path / "a").read_bytes() == b"old"
        assert names_in(tmp_path) == ["a"]

    def test_a_target_that_cannot_be_replaced_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        with pytest.raises(OSError, match="directory"):
            write_atomic(tmp_path / "a", b"x")
        assert names_in(tmp_path) == ["a"]
