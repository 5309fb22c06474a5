"""How the command line becomes a request: files in their order, optional values, selections."""

from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.inputs import masked_errors
from paceline.cli.output import OutputError
from paceline.cli.revisions import taken_revision_options
from paceline.cli.run import command
from paceline.errors import PacelineError
from paceline.experiments.trials import Interrupted


def parse(*words: str) -> dict[str, Any]:
    with command.make_context("run", list(words)) as context:
        return dict(context.params)


def configs(*words: str) -> list[str]:
    return [str(path) for path in parse(*words)["configs"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a.yaml", "b.yaml"], ["a.yaml", "b.yaml"]),
        (["--config", "a.yaml", "b.yaml", "--config=c.yaml"], ["a.yaml", "b.yaml", "c.yaml"]),
        (["b.yaml", "--matrix", "a.yaml", "--jobs", "2", "c.yaml"], ["b.yaml", "a.yaml", "c.yaml"]),
        (["--only", "x", "a.yaml", "--", "-b.yaml", "--config"], ["a.yaml", "-b.yaml", "--config"]),
        (["--config", "-odd.yaml"], ["-odd.yaml"]),
        (["--only", "--config", "a.yaml"], ["a.yaml"]),
        ([], []),
    ],
)
def test_configuration_files_keep_the_order_given(words: list[str], expected: list[str]) -> None:
    assert configs(*words) == expected


FILE = st.sampled_from(["a.yaml", "dir/b.yml", "c.json", "--d.yaml"])
PIECE = st.one_of(
    FILE.filter(lambda name: not name.startswith("-")).map(lambda name: ([name], name)),
    FILE.map(lambda name: (["--config", name], name)),
    FILE.map(lambda name: ([f"--matrix={name}"], name)),
    st.sampled_from([["--jobs", "3"], ["--only", "a.yaml"], ["--quiet"], ["-q"], ["--exclude=x"]]).map(
        lambda words: (words, None)
    ),
)


@given(st.lists(PIECE, max_size=8))
def test_any_mixture_keeps_its_order(pieces: list[tuple[list[str], str | None]]) -> None:
    words = [word for piece, _ in pieces for word in piece]
    assert configs(*words) == [name for _, name in pieces if name is not None]


@pytest.mark.parametrize(
    ("words", "resume", "files"),
    [
        (["s.yaml"], None, ["s.yaml"]),
        (["s.yaml", "--resume"], "", ["s.yaml"]),
        (["--resume", "--jobs", "2", "s.yaml"], "", ["s.yaml"]),
        (["s.yaml", "--resume", "monday"], "monday", ["s.yaml"]),
        (["--resume=monday", "s.yaml"], "monday", ["s.yaml"]),
        (["--resume", "s.yaml"], "", ["s.yaml"]),
        (["--resume", "missing.yaml"], "missing.yaml", []),
    ],
)
def test_resume_may_stand_alone(
    words: list[str], resume: str | None, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").touch()
    parsed = parse(*words)
    assert parsed["resume"] == resume
    assert [str(path) for path in parsed["configs"]] == files


def test_a_missing_value_is_told() -> None:
    for words in (["a.yaml", "--only"], ["--config"], ["a.yaml", "--session-name"]):
        with pytest.raises(click.BadOptionUsage, match="requires an argument"):
            parse(*words)


def test_the_options_of_a_request() -> None:
    parsed = parse(
        *["m.yaml", "--datasets", "d.json", "--sink", "mlflow", "--sink", "none", "--results-dir", "r"],
        *["--session-name", "n", "--only", "a", "--only", "tag:b", "--exclude", "c*", "--jobs", "3"],
        *["--shard", "2/4", "--rerun-failed", "--json", "--quiet"],
    )
    assert taken_revision_options(parsed) == {}
    assert parsed == {
        "configs": (Path("m.yaml"),),
        "datasets": Path("d.json"),
        "sinks": ("mlflow", "none"),
        "results_dir": Path("r"),
        "session_name": "n",
        "resume": None,
        "only": ("a", "tag:b"),
        "exclude": ("c*",),
        "jobs": 3,
        "on": None,
        "shard": (2, 4),
        "rerun_failed": True,
        "db": None,
        "no_history": False,
        "as_json": True,
        "quiet": True,
        "verbose": False,
        "log": "auto",
    }


@pytest.mark.parametrize("kind", [PacelineError, OutputError, Interrupted])
def test_an_error_keeps_its_kind_and_exit_code_when_it_gets_the_names_of_secrets(
    tmp_path: Path, kind: type[PacelineError]
) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text("secrets: [MY_PASS]\nnot_secrets: [MY_TOKEN]\n")
    with pytest.raises(PacelineError) as caught, masked_errors([suite]):
        raise kind("why")
    assert type(caught.value) is kind and caught.value.exit_code == kind.exit_code
    assert caught.value.secret_names == ("MY_PASS", "!MY_TOKEN")
