"""Addresses of object stores: told from paths, taken apart, and given a directory to run in."""

from pathlib import Path

import pytest

from paceline.errors import PacelineError
from paceline.record.remote.address import parse_location, split, working_dir


@pytest.mark.parametrize("text", ["results", "./a:b", "/data/x", "C:/x", "a//b", "s3:/x"])
def test_paths_are_paths(text: str) -> None:
    assert parse_location(text) == Path(text) == working_dir(parse_location(text))


@pytest.mark.parametrize("text", ["s3://bench", "s3://bench/a/b", "memory://x", "gs://b/x"])
def test_urls_stay_as_they_are(text: str) -> None:
    assert parse_location(text) == text == parse_location(f"{text}/")


def test_a_file_url_is_a_path() -> None:
    assert parse_location("file:///data/with%20blank") == Path("/data/with blank")


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(PacelineError) as caught:
        parse_location("sftp://me:hidden-word@host/x")
    assert "hidden-word" not in str(caught.value) and "host" in str(caught.value)


def test_split() -> None:
    assert split("s3://bench/a/b/") == ("s3://bench/a", "b")
    assert split("s3://bench/a") == ("s3://bench", "a")
    for whole in ("s3://bench", "s3://"):
        with pytest.raises(PacelineError, match="names no object"):
            split(whole)


class TestWorkingDirectory:
    def test_it_depends_on_address_and_endpoint(self) -> None:
        environments = [
            {},
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
            {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:2"},
        ]
        found = {
            working_dir(url, {"PACELINE_WORK_DIR": "/w", **environ})
            for url in ("s3://bench/a", "s3://bench/b")
            for environ in environments
        }
        assert len(found) == 6 and all(path.parent == Path("/w") for path in found)

    def test_where_it_lies(self) -> None:
        state = working_dir("s3://bench/a", {"XDG_STATE_HOME": "/state"})
        assert state.is_relative_to("/state/paceline/work") and "s3-bench-a" in state.name
        assert working_dir("s3://bench/a", {}).is_relative_to(Path.home() / ".local/state/paceline/work")
        assert working_dir("s3://bench/a", {"PACELINE_WORK_DIR": "w"}).is_relative_to(Path.cwd() / "w")
