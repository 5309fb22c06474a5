"""Without extras: whatever needs one says which, in one line, with no traceback."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from shipping.distributions import REPOSITORY, Distributions

ENTRY = 'results_dir: results\nentries:\n  - {name: a, command: ["true"]}\n'
EVALS = "evals:\n  gpu_ids: [cpu]\n  models: [small]\n  attentions: [dense]\n"
FILES: Mapping[str, str] = {
    "one.yaml": ENTRY,
    "ray.yaml": ENTRY.replace("}", ", ray: {}}"),
    **{f"{sink}.yaml": f"sinks: [{{name: {sink}}}]\n{ENTRY}" for sink in ("mlflow", "wandb", "gdrive")},
    "huggingface.yaml": f"{EVALS}  benchmarks: [mock_benchmark]\n",
    "lm_eval.yaml": f"{EVALS}  adapter: {{name: mock}}\n  benchmarks: [lm_eval]\n",
    "m.jsonl": '{"audio_filepath": "a.wav", "duration": 1, "segments": []}\n',
    "d.jsonl": '{"id": 1, "text": "a"}\n',
}
SCRIPTS = REPOSITORY / "benchmarks" / "scripts"
POSTGRES = "postgresql://user@host/bench"


def alm(executor: str) -> list[str | Path]:
    script = SCRIPTS / "alm_pipeline_benchmark.py"
    places = ("--benchmark-results-path", "out", "--input-manifest", "m.jsonl")
    return ["python", script, *places, "--executor", executor]


def document_script(name: str) -> list[str | Path]:
    return ["python", SCRIPTS / f"{name}_benchmark.py", "--help"]


# What is asked for, the extra it needs, and the code: 1 where other parts of the same work went on.
FEATURES: dict[str, tuple[list[str | Path], str, int]] = {
    "entry with ray, planned": (["paceline", "plan", "ray.yaml"], "ray", 2),
    "entry with ray, run": (["paceline", "run", "ray.yaml", "--no-history", "--quiet"], "ray", 1),
    "pool of machines": (["paceline", "run", "one.yaml", "--no-history", "--on", "ray://h:1"], "ray", 2),
    "sink mlflow": (["paceline", "plan", "mlflow.yaml"], "mlflow", 2),
    "sink wandb": (["paceline", "run", "wandb.yaml", "--no-history"], "wandb", 2),
    "sink gdrive": (["paceline", "plan", "gdrive.yaml"], "gdrive", 2),
    "results in an object store": (
        ["paceline", "run", "one.yaml", "--no-history", "--results-dir", "s3://b/r"],
        "s3",
        2,
    ),
    "list of an object store": (["paceline", "list", "--results-dir", "s3://b/r"], "s3", 2),
    "history from an object store": (["paceline", "history", "pull", "s3://b/h.db"], "s3", 2),
    "run into PostgreSQL": (["paceline", "run", "one.yaml", "--db", POSTGRES], "postgres", 2),
    "history in PostgreSQL": (["paceline", "history", "log", "a", "--db", POSTGRES], "postgres", 2),
    "dashboard of PostgreSQL": (["paceline", "dashboard", "build", "s", "--db", POSTGRES], "postgres", 2),
    "eval of a model": (["paceline", "evals", "run", "huggingface.yaml"], "evals", 1),
    "eval benchmark lm_eval": (["paceline", "evals", "run", "lm_eval.yaml"], "lm-eval", 1),
    "executor ray_actors": (alm("ray_actors"), "ray", 1),
    "executor ray_data": (alm("ray_data"), "ray", 1),
    "executor xenna": (alm("xenna"), "xenna", 1),
    "removal": (document_script("removal"), "curate", 2),
    "exact dedup": (document_script("exact_dedup"), "curate", 2),
    "fuzzy dedup": (document_script("fuzzy_dedup"), "curate", 2),
    "score filter": (document_script("score_filter"), "curate", 2),
    "modifier": (document_script("modifier"), "curate", 2),
    "common crawl": (document_script("common_crawl"), "curate", 2),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extras")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_says_which_extra_it_needs(distributions: Distributions, place: Path, feature: str) -> None:
    words, extra, code = FEATURES[feature]
    done = distributions.run(place, *words)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert f"needs the {extra} extra: pip install 'paceline[{extra}]'\n" in said
    assert "Traceback" not in said
    if code == 2:
        assert sum("needs the" in line for line in done.stderr.splitlines()) == 1
        assert done.stderr.splitlines()[-1].endswith(f"'paceline[{extra}]'")


WALK = """
import importlib, json, pkgutil, paceline
from paceline.errors import MissingExtra
found = {}
for module in pkgutil.walk_packages(paceline.__path__, "paceline."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except MissingExtra as error:
        found[module.name] = "extra"
    except Exception as error:
        found[module.name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def test_every_module_can_be_imported_or_says_which_extra_it_needs(
    distributions: Distributions, tmp_path: Path
) -> None:
    found = json.loads(distributions.run(tmp_path, "python", "-c", WALK).stdout)
    others = {name: why for name, why in found.items() if why != "extra"}
    # pytest alone imports its plugin.
    assert set(others) == {"paceline.pytest_plugin"}
    assert {name for name, why in found.items() if why == "extra"} <= {
        name for name in found if name.startswith("paceline.curate.")
    }


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["run", "--help"], ["history", "log", "--help"]]
)
def test_starting_imports_nothing_heavy(
    distributions: Distributions, tmp_path: Path, words: list[str]
) -> None:
    done = distributions.run(tmp_path, "python", "-X", "importtime", "-m", "paceline", *words)
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    tops = {name.partition(".")[0] for name in loaded}
    assert {"paceline", "click"} <= tops
    foreign = tops & {
        "numpy",
        "orjson",
        "psutil",
        "pydantic",
        "rich",
        "sqlalchemy",
        "yaml",
    }
    assert not foreign
    assert not loaded & {
        "asyncio",
        "sqlite3",
        "multiprocessing",
        "concurrent.futures.process",
        "paceline.session.session",
    }
