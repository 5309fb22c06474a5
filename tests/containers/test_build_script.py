"""tools/build_docker.sh: what it asks an engine to build."""

import pytest

from paceline import __version__
from stub_engine import HOSTILE, REPOSITORY, Desk, following, read_back


def build_args(argv: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in following(argv, "--build-arg"))


def test_the_plain_image(desk: Desk) -> None:
    done = desk.call("build_docker.sh")
    assert done.returncode == 0, done.stderr
    argv = desk.argv
    assert argv[0] == "build"
    assert argv[-1] == str(REPOSITORY)
    assert following(argv, "--file") == [str(REPOSITORY / "docker" / "Dockerfile")]
    assert following(argv, "--tag") == [f"paceline:{__version__}"]
    assert build_args(argv)["VERSION"] == __version__
    assert "--format" not in argv


def test_the_latest_tag_goes_with_the_name(desk: Desk) -> None:
    desk.call("build_docker.sh", "--tag-as-latest")
    assert following(desk.argv, "--tag") == [f"paceline:{__version__}", "paceline:latest"]
    desk.call("build_docker.sh", "--tag-as-latest", "--image", "registry.example.org:5000/bench/paceline")
    names = ["registry.example.org:5000/bench/paceline", "registry.example.org:5000/bench/paceline:latest"]
    assert following(desk.argv, "--tag") == names
    desk.call("build_docker.sh", "--tag-as-latest", PACELINE_IMAGE="host:5000/paceline:7")
    assert following(desk.argv, "--tag") == ["host:5000/paceline:7", "host:5000/paceline:latest"]


def test_the_cuda_variant(desk: Desk) -> None:
    desk.call("build_docker.sh", "--cuda", "--tag-as-latest")
    assert following(desk.argv, "--tag") == [f"paceline:{__version__}-cuda", "paceline:latest-cuda"]
    args = build_args(desk.argv)
    assert args["BASE_IMAGE"].startswith("nvidia/cuda:")
    assert "gpu" in args["EXTRAS"].split(",")
    desk.call(
        "build_docker.sh", "--cuda", "--base", "my/cuda:1", "--extras", "ray", "--torch", "torch==2.13.0"
    )
    args = build_args(desk.argv)
    assert (args["BASE_IMAGE"], args["EXTRAS"], args["TORCH"]) == ("my/cuda:1", "ray,gpu", "torch==2.13.0")


@pytest.mark.parametrize("engine", ["podman", "buildah"])
def test_other_engines_keep_the_health_check(desk: Desk, engine: str) -> None:
    desk.add_engine(engine)
    desk.call("build_docker.sh", "--engine", engine)
    assert following(desk.argv, "--format") == ["docker"]


@pytest.mark.parametrize("word", HOSTILE)
def test_values_reach_the_engine_as_they_are(desk: Desk, word: str) -> None:
    words = ["--base", f"b{word}", "--extras", f"e{word}", "--apt-packages", word, "--engine-arg", word]
    printed = desk.call("build_docker.sh", "--dry-run", *words)
    assert not desk.was_called
    done = desk.call("build_docker.sh", *words)
    assert done.returncode == 0, done.stderr
    args = build_args(desk.argv)
    assert (args["BASE_IMAGE"], args["EXTRAS"], args["APT_PACKAGES"]) == (f"b{word}", f"e{word}", word)
    assert desk.argv[-2] == word
    assert read_back(printed.stdout) == ["docker", *desk.argv]
    assert not (desk.path / "pwned").exists()


def test_mistakes_are_refused(desk: Desk) -> None:
    for words, message in (
        (["--tag-as-lates"], "unknown option '--tag-as-lates'"),
        (["--extras"], "--extras needs a value"),
        (["--image", "--rm"], "cannot begin with a dash"),
    ):
        done = desk.call("build_docker.sh", *words)
        assert done.returncode == 2
        assert message in done.stderr
    assert not desk.was_called
