"""The shorter and older ways to write things, and what is ignored."""

from pathlib import Path

import pytest

from config.config_files import ENTRY, ConfigFiles
from paceline.config import paths

CONTAINER = {"container": "podman"}


@pytest.fixture(autouse=True)
def _on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run in a container themselves; the variable alone decides here."""
    monkeypatch.setattr(paths, "MARKERS", ())


def test_datasets_as_a_mapping_and_as_a_list_meet(files: ConfigFiles) -> None:
    first = ENTRY + "datasets:\n  cc: {jsonl: /a, parquet: /b}\n"
    second = "datasets:\n  - {name: cc, formats: [{type: jsonl, path: /c}]}\n"
    for texts, jsonl in (((first, second), "/c"), ((second, first), "/a")):
        (dataset,) = files.load(*texts).config.datasets
        assert {one.type: one.path for one in dataset.formats} == {"jsonl": jsonl, "parquet": "/b"}


def test_requirements_and_sink_data_as_mappings(files: ConfigFiles) -> None:
    entry = files.load(
        """
        entries:
          - name: a
            script: a
            requirements: {ok: {exact_value: true}, speed: {min_value: 5, tolerance: 5%, severity: warn}}
            sink_data: {slack: {ping_on_failure: [U1]}}
        """
    ).config.entries[0]
    assert [(item.metric, item.exact_value, item.min_value) for item in entry.requirements] == [
        ("ok", True, None), ("speed", None, 5),
    ]  # fmt: skip
    assert (entry.requirements[1].tolerance, entry.requirements[1].severity) == (0.05, "warn")
    assert [(item.name, item.options) for item in entry.sink_data] == [("slack", {"ping_on_failure": ["U1"]})]


def test_texts_keep_what_was_written(files: ConfigFiles) -> None:
    entry = files.load(
        """
        env: {VERBOSE: 010}
        entries:
          - name: a
            command: [run, 1.10, true, 0x10]
            args: 5
            env: {A: 1.10, B: true, C: null}
            version: 2.0
            tags: [1.10, x]
        """
    ).config.entries[0]
    assert entry.command == ["run", "1.10", "true", "0x10"]
    assert (entry.args, entry.env, entry.version) == ("5", {"A": "1.10", "B": "true"}, "2.0")
    assert entry.tags == ["1.10", "x"]


def test_anchors_and_x_keys_are_ignored(files: ConfigFiles) -> None:
    loaded = files.load("ray_config: &ray {num_cpus: 2}\nx-note: 5\n" + ENTRY)
    assert loaded.warnings == ()
    assert set(loaded.tree.value) == {"entries"}  # type: ignore[arg-type]
    assert files.problems("ray_config: {num_cpus: 2}\n" + ENTRY) == ["a.yaml:1: unknown key 'ray_config'"]
    assert files.problems("x: &a 1\ny: *a\n" + ENTRY) == ["a.yaml:2: unknown key 'y'"]


def test_an_anchored_misspelling_is_a_warning(files: ConfigFiles) -> None:
    (warning,) = files.load("sink: &s []\n" + ENTRY).warnings
    assert warning.endswith("a.yaml:1: 'sink' only defines an anchor; did you mean 'sinks'?")


def test_defaults_lie_under_every_entry(files: ConfigFiles) -> None:
    config = files.load(
        """
        defaults:
          script: common.py
          timeout_s: 5
          env: {A: 1}
          requirements: {ok: {exact_value: true}}
        entries:
          - name: a
          - {name: b, timeout_s: 6, env: {B: 2}, requirements: {ok: null, speed: {min_value: 1}}}
          - {name: c, command: other}
        """
    ).config
    a, b, c = config.entries
    assert (a.script, a.timeout_s, a.env) == ("common.py", 5, {"A": "1"})
    assert (b.timeout_s, b.env) == (6, {"A": "1", "B": "2"})
    assert (c.script, c.command) == (None, "other")
    assert config.defaults is None


def test_mistakes_in_defaults(files: ConfigFiles) -> None:
    text = "defaults:\n  name: x\n  timout_s: 5\nentries: [{name: a, script: a}, {name: b, script: b}]\n"
    assert files.problems(text) == [
        "a.yaml:2: defaults.name: entries must not share a name",
        "a.yaml:3: entries[0]: unknown key 'timout_s'; did you mean 'timeout_s'?",
    ]
    assert files.problems("defaults: 5\n" + ENTRY) == ["a.yaml:1: defaults: expected a mapping, got 5"]


def test_defaults_may_disable(files: ConfigFiles) -> None:
    text = (
        "defaults: {enabled: false}\nentries: [{name: a, script: a}, {name: b, script: b, enabled: true}]\n"
    )
    assert [entry.name for entry in files.load(text).config.entries] == ["b"]


def test_legacy_paths(files: ConfigFiles) -> None:
    loaded = files.load(ENTRY + "results_path: ${R}/r\ndatasets_path: /d\n", environ={"R": "/srv"})
    assert loaded.config.results_dir == "/srv/r"
    assert [(path.name, path.host_path) for path in loaded.config.paths] == [
        ("results_path", "${R}/r"), ("datasets_path", "/d"),
    ]  # fmt: skip
    assert [warning.partition(": ")[2][:28] for warning in loaded.warnings] == [
        "'results_path' is deprecated", "'datasets_path' is deprecate",
    ]  # fmt: skip


def test_the_results_path(files: ConfigFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ENTRY + "paths: [{name: results_path, host_path: /h}]\n"
    both = ENTRY + "paths: [{name: results_path, host_path: /h, container_path: /c}]\n"
    assert files.load(plain).config.results_dir == "/h"
    monkeypatch.setattr(paths, "MOUNT", tmp_path / "no_mount")
    assert files.load(plain, environ=CONTAINER).config.results_dir == "/h"
    monkeypatch.setattr(paths, "MOUNT", tmp_path)
    assert files.load(plain, environ=CONTAINER).config.results_dir == f"{tmp_path}/h"
    legacy = ENTRY + "results_path: /h\n"
    assert files.load(legacy, environ=CONTAINER).config.results_dir == f"{tmp_path}/h"
    assert files.load(both).config.results_dir == "/h"
    assert files.load(both, environ=CONTAINER).config.results_dir == "/c"
    loaded = files.load(both + "results_dir: mine\n")
    assert loaded.config.results_dir == "mine"
    assert "'results_dir' is given too" in loaded.warnings[0]


def test_null_falls_back_to_the_default(files: ConfigFiles) -> None:
    config = files.load(ENTRY + "object_store_size: null\ndefault_timeout_s: null\nray: ~\n").config
    assert (config.object_store_size, config.default_timeout_s, config.ray) == (None, 7200, None)


def test_null_in_a_mapping_unsets_the_item_of_the_list(files: ConfigFiles) -> None:
    base = """
    entries: [{name: e, script: e, requirements: [{metric: m, min_value: 1}, {metric: n, min_value: 2}]}]
    datasets: [{name: d, formats: [{type: t, path: x}, {type: u, path: y}]}, {name: c, formats: []}]
    """
    over = "entries: [{name: e, requirements: {m: null}}]\ndatasets: {d: {u: null}, c: null}\n"
    config = files.load(base, over).config
    assert [item.metric for item in config.entries[0].requirements] == ["n"]
    assert [(item.name, [one.type for one in item.formats]) for item in config.datasets] == [("d", ["t"])]
    anew = files.load(base, over, "entries: [{name: e, requirements: {m: {max_value: 9}}}]\n").config.entries[
        0
    ]
    assert [(item.metric, item.min_value, item.max_value) for item in anew.requirements] == [
        ("m", None, 9),
        ("n", 2, None),
    ]
