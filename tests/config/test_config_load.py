"""Files → Config: merging, variables, blocks that are off, and every mistake of every file at once."""

from pathlib import Path

import pytest

from config.config_files import ENTRY, ConfigFiles
from paceline.config.load import load
from paceline.config.nodes import plain
from paceline.config.templates import Unset
from paceline.errors import ConfigError, Problem


def test_defaults(files: ConfigFiles) -> None:
    config = files.load(ENTRY).config
    assert (config.results_dir, config.artifacts_dir, config.default_timeout_s) == ("results", None, 7200)
    assert (config.max_timeout_s, config.delete_scratch, config.grace_s) == (None, True, 5)
    assert config.gpu_stats_recorder.active
    (entry,) = config.entries
    assert (entry.repeat, entry.warmup, entry.retries, entry.version, entry.enabled) == (1, 0, 0, "1", True)
    assert config.ray_for(entry) is None
    assert entry.timeout_s is None


def test_later_files_win(files: ConfigFiles) -> None:
    loaded = files.load(
        """
        default_timeout_s: 10
        entries:
          - name: a
            script: a.py
            requirements: [{metric: ok, exact_value: true}]
          - {name: b, script: b.py}
        """,
        """
        entries:
          - name: a
            timeout_s: 5
            requirements: {ok: {exact_value: null, min_value: 1}}
          - {name: c, command: c}
        """,
    )
    assert [entry.name for entry in loaded.config.entries] == ["a", "b", "c"]
    a = loaded.config.entries[0]
    assert (a.script, a.timeout_s, loaded.config.default_timeout_s) == ("a.py", 5, 10)
    assert (a.requirements[0].exact_value, a.requirements[0].min_value) == (None, 1)
    assert loaded.mark(("entries", 0, "timeout_s")).line == 4
    assert loaded.mark(("entries", 0, "timeout_s")).file.endswith("b.yaml")


def test_documents_of_a_file_merge_as_files_do(files: ConfigFiles) -> None:
    loaded = files.load(f"{ENTRY}---\nentries: [{{name: e, timeout_s: 3}}]\n")
    assert loaded.config.entries[0].timeout_s == 3


def test_all_mistakes_of_all_files_at_once(files: ConfigFiles) -> None:
    problems = files.problems(
        """\
        results_dri: x
        entries:
          - name: a
            script: a.py
            timeout_s: "5"
          - name: b
            requirments: []
        """,
        """\
        entries:
          - name: c
            script: c.py
            repeat: 0
            ray: {num_cpu: 3}
        """,
    )
    assert problems == [
        "a.yaml:1: unknown key 'results_dri'; did you mean 'results_dir'?",
        "a.yaml:5: entries[0].timeout_s: expected a number of seconds greater than 0, got '5'",
        "a.yaml:6: entries[1]: give a 'script' or a 'command' to run, or 'pytest' or 'asv'",
        "a.yaml:7: entries[1]: unknown key 'requirments'; did you mean 'requirements'?",
        "b.yaml:4: entries[2].repeat: expected a whole number, 1 or more, got 0",
        "b.yaml:5: entries[2].ray: unknown key 'num_cpu'; did you mean 'num_cpus'?",
    ]


def test_a_broken_file_does_not_hide_the_mistakes_of_others(files: ConfigFiles) -> None:
    problems = files.problems("entries: [{name: a, timeout_s: -1}]\n", "entries: [\n")
    assert (
        problems[0] == "a.yaml:1: entries[0].timeout_s: expected a number of seconds greater than 0, got -1"
    )
    assert problems[1].startswith("b.yaml:2: invalid YAML")
    assert len(problems) == 2, "what is missing may be in the broken file"


def test_the_index_counts_disabled_entries(files: ConfigFiles) -> None:
    text = "entries:\n  - {name: a, enabled: false}\n  - {name: b, script: b, timeout_s: 0}\n"
    assert files.problems(text)[0].startswith("a.yaml:3: entries[1].timeout_s: ")


def test_a_mistake_used_many_times_is_told_once(files: ConfigFiles) -> None:
    text = """\
    x-ray: &ray
      num_cpus: many
    entries:
      - {name: a, script: a, ray: *ray}
      - {name: b, script: b, ray: *ray}
    """
    assert files.problems(text) == [
        "a.yaml:2: entries[0].ray.num_cpus: expected a whole number, 0 or more, got 'many'"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("results_dir: x\n", "a.yaml:1: there is nothing to run: the key 'entries' is missing"),
        ("entries: []\n", "a.yaml:1: entries: there is nothing to run: 'entries' is empty"),
        (
            "entries:\n  - {name: a, enabled: false}\n  - {name: b, enabled: false}\n",
            "a.yaml:1: entries: there is nothing to run: all 2 are disabled",
        ),
        ("- a\n", "a.yaml:1: expected a mapping of keys at the top of the file"),
        ("just text\n", "a.yaml:1: expected a mapping of keys at the top of the file"),
        ("", "a.yaml:1: the file is empty"),
        ("entries: 5\n", "a.yaml:1: entries: expected a list, got 5"),
        ("entries: [5]\n", "a.yaml:1: entries[0]: expected a mapping, got 5"),
    ],
)
def test_suites_with_nothing_to_run(files: ConfigFiles, text: str, expected: str) -> None:
    assert expected in files.problems(text)


def test_no_file_at_all() -> None:
    with pytest.raises(ConfigError, match="no configuration file is given"):
        load([])


def test_duplicates_in_one_file(files: ConfigFiles) -> None:
    problems = files.problems(
        """\
        entries:
          - name: a
            script: a
            requirements:
              - {metric: m, min_value: 1}
              - {min_value: 2, metric: m}
          - {name: a, script: b}
        datasets:
          - {name: d, formats: [{type: t, path: x}, {type: t, path: y}]}
          - {name: d, formats: []}
        paths: [{name: p, host_path: x}, {name: p, host_path: y}]
        sinks: [{name: s}, {name: s}]
        data_setups: [{name: u, script: u}, {name: u, script: v}]
        """
    )
    assert [problem.partition(": ")[0] for problem in problems] == [
        "a.yaml:6", "a.yaml:7", "a.yaml:9", "a.yaml:10", "a.yaml:11", "a.yaml:12", "a.yaml:13",
    ]  # fmt: skip
    assert (
        problems[1]
        == "a.yaml:7: entries[1]: name 'a' is there twice, first at a.yaml:2; give each its own name"
    )


def test_duplicates_made_by_appending(files: ConfigFiles) -> None:
    (problem,) = files.problems(ENTRY, "entries: !append [{name: e, script: f}]\n")
    assert (
        problem == "b.yaml:1: entries[1]: name 'e' is there twice, first at a.yaml:1; give each its own name"
    )


def test_unset_variables_block_their_items_only(files: ConfigFiles) -> None:
    loaded = files.load(
        """\
        entries:
          - {name: off, script: x, enabled: false, args: "${NO1}"}
          - {name: fine, script: x}
          - name: typed
            script: x
            timeout_s: ${NO2}
            requirements:
              - {metric: m, min_value: "${NO3:?give a bound}"}
              - {metric: n, min_value: 1}
            matrix: {size: ["${NO4}", 2]}
          - {name: lazy, script: x, args: "--a ${NO5}"}
          - {name: "${NO6}", script: x}
        data_setups:
          - {name: setup, command: "${NO7}"}
        sinks:
          - {name: mlflow, tracking_uri: "${NO8}"}
        datasets:
          d: {t: "${NO9}/x"}
        """
    )
    names = {path: unset.name for path, unset in loaded.unset.items()}
    assert names == {
        ("entries", 1): "NO2", ("entries", 2): "NO5", ("entries", 3): "NO6",
        ("data_setups", 0): "NO7", ("sinks", 0): "NO8",
    }  # fmt: skip
    mark = loaded.mark(("entries", 1, "timeout_s"))
    assert loaded.unset["entries", 1] == Unset(name="NO2", path=("entries", 1, "timeout_s"), mark=mark)
    typed, lazy, named = loaded.config.entries[1:]
    assert typed.timeout_s is None
    assert [requirement.metric for requirement in typed.requirements] == ["n"]
    assert (lazy.args, named.name) == ("--a ${NO5}", "${NO6}")
    assert loaded.config.sinks[0].options == {}
    assert loaded.config.datasets[0].formats[0].path == "${NO9}/x"
    assert loaded.label(("entries", 2)) == "entries[3]"
    assert plain(loaded.tree)["entries"][1]["timeout_s"] == "${NO2}"


def test_unset_variables_elsewhere_are_problems(files: ConfigFiles) -> None:
    text = "results_dir: ${NO}/x\nenv: {A: '${NEITHER:?for the proxy}'}\nray: {num_cpus: $NO }\n" + ENTRY
    problems = files.problems(text)
    assert problems == [
        "a.yaml:1: results_dir: environment variable NO is not set; set it, or write ${NO:-default}",
        "a.yaml:2: env.A: environment variable NEITHER is not set: for the proxy; set it, or write ${NEITHER:-default}",
        "a.yaml:3: ray.num_cpus: expected a whole number, 0 or more, got '$NO'",
    ]


def test_a_blocked_timeout_is_not_judged_by_the_default(files: ConfigFiles) -> None:
    loaded = files.load("max_timeout_s: 10\nentries: [{name: a, script: a, timeout_s: '${NO}'}]\n")
    assert ("entries", 0) in loaded.unset


def test_malformed_variables_name_their_line(files: ConfigFiles) -> None:
    text = "entries:\n  - {name: off, enabled: false}\n  - name: a\n    script: ${x y}\n    timeout_s: ${5}\n"
    problems = files.problems(text)
    assert [problem.partition(": malformed")[0] for problem in problems] == [
        "a.yaml:4: entries[1].script", "a.yaml:5: entries[1].timeout_s",
    ]  # fmt: skip


def test_variables_are_typed_as_the_key_wants(files: ConfigFiles) -> None:
    loaded = files.load(
        """
        run_reason: ${N}
        results_dir: ${N}
        delete_scratch: ${B}
        entries: [{name: "x", script: x, timeout_s: "5"}]
        entries: !!seq
          - name: ${N}
            script: x
            timeout_s: ${N}
            description: ${F}
        """.replace('        entries: [{name: "x", script: x, timeout_s: "5"}]\n', ""),
        environ={"N": "007", "B": "false", "F": "1.10"},
    )
    entry = loaded.config.entries[0]
    assert (loaded.config.run_reason, loaded.config.results_dir, loaded.config.delete_scratch) == (
        "007",
        "007",
        False,
    )
    assert (entry.name, entry.timeout_s, entry.description) == ("007", 7, "1.10")


def test_errors_show_the_variable_not_its_value(files: ConfigFiles) -> None:
    text = ENTRY + "default_timeout_s: ${TOKEN}\n"
    (problem,) = files.problems(text, environ={"TOKEN": "hunter2-hunter2"})
    assert (
        problem == "a.yaml:2: default_timeout_s: expected a number of seconds greater than 0, got '${TOKEN}'"
    )


def test_disabled_by_a_variable(files: ConfigFiles) -> None:
    text = """
    entries:
      - {name: a, script: a}
      - name: b
        script: b
        enabled: ${RUN_B:-false}
        args: ${ONLY_FOR_B}
    """
    assert [entry.name for entry in files.load(text).config.entries] == ["a"]
    loaded = files.load(text, environ={"RUN_B": "true", "ONLY_FOR_B": "x"})
    assert [entry.name for entry in loaded.config.entries] == ["a", "b"]
    assert (
        "expected true or false, got '${RUN_B:-false}'" in files.problems(text, environ={"RUN_B": "maybe"})[0]
    )
    assert ("entries", 1) in files.load(text.replace(":-false", "")).unset


def test_enabled_in_quotes_is_refused(files: ConfigFiles) -> None:
    (problem,) = files.problems('entries: [{name: a, script: a, enabled: "false"}]\n')
    assert problem == "a.yaml:1: entries[0].enabled: expected true or false, got 'false'"


def test_a_later_file_may_switch_on_and_off(files: ConfigFiles) -> None:
    base = "entries: [{name: a, script: a, enabled: false}, {name: b, script: b}]\n"
    loaded = files.load(base, "entries: [{name: a, enabled: true}, {name: b, enabled: false}]\n")
    assert [entry.name for entry in loaded.config.entries] == ["a"]


def test_the_gpu_recorder_can_be_switched_off(files: ConfigFiles) -> None:
    assert not files.load(ENTRY + "gpu_stats_recorder: {enabled: false}\n").config.gpu_stats_recorder.active
    assert not files.load(ENTRY + "gpu_stats_recorder: {interval_s: 0}\n").config.gpu_stats_recorder.active


def test_the_dataset_file_merges_into_datasets(files: ConfigFiles, tmp_path: Path) -> None:
    path = tmp_path / "dataset_paths.json"
    path.write_text('{"cc": {"jsonl": "/new", "parquet": "/p"}, "other": {"jsonl": "/o"}}')
    base = ENTRY + "datasets: [{name: cc, formats: [{type: jsonl, path: /old}, {type: csv, path: /c}]}]\n"
    config = files.load(base, datasets=path).config
    found = {dataset.name: {one.type: one.path for one in dataset.formats} for dataset in config.datasets}
    assert found == {"cc": {"jsonl": "/new", "csv": "/c", "parquet": "/p"}, "other": {"jsonl": "/o"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"cc": 5}', "d.json:1: datasets[0].formats: expected a list, got 5"),
        ('{"cc": {"jsonl": 5}}', "d.json:1: datasets[0].formats[0].path: expected a string, got 5"),
        ('"x"', "d.json:1: datasets: expected a list, got 'x'"),
        ("{", "d.json:1: invalid JSON: Expecting property name enclosed in double quotes (column 2)"),
    ],
)
def test_bad_dataset_files(files: ConfigFiles, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "d.json").write_text(text)
    assert files.problems(ENTRY, datasets=tmp_path / "d.json") == [expected]


def test_files_are_told_in_the_order_given(tmp_path: Path) -> None:
    paths = [tmp_path / "z.yaml", tmp_path / "a.yaml"]
    for path in paths:
        path.write_text("nope: 1\nentries: [{name: a, script: a, bad: 1}]\n")
    paths[1].write_text("neither: 1\nentries: [{name: b, script: b, bad: 1}]\n")
    with pytest.raises(ConfigError) as caught:
        load(paths, environ={})
    assert [(Path(problem.file).name, problem.line) for problem in caught.value.problems] == [
        ("z.yaml", 1), ("z.yaml", 2), ("a.yaml", 1), ("a.yaml", 2),
    ]  # fmt: skip
    assert all(isinstance(problem, Problem) for problem in caught.value.problems)


def test_the_environment_is_the_process_own_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE", "/there")
    (tmp_path / "a.yaml").write_text(ENTRY + "results_dir: ${WHERE}\n")
    assert load([tmp_path / "a.yaml"]).config.results_dir == "/there"


def test_a_quoted_variable_is_a_number_where_one_is_due(files: ConfigFiles) -> None:
    text = """
    {"max_timeout_s": 10, "run_reason": "${N}",
     "entries": [{"name": "a", "script": "x", "timeout_s": "${N}", "repeat": "${R:-3}", "description": "${N}",
                  "delete_scratch": "${B}", "matrix": {"x": ["${N}"]},
                  "requirements": [{"metric": "m", "min_value": "${UNSET}"}, {"metric": "n", "min_value": "${N}"}]},
                 {"name": "off", "script": "x", "enabled": "${B}"}]}
    """
    known = {"N": "007", "B": "false"}
    loaded = files.load(text, environ=known)
    (entry,) = loaded.config.entries
    assert (entry.timeout_s, entry.repeat, entry.delete_scratch) == (7, 3, False)
    assert (loaded.config.run_reason, entry.description) == ("007", "007")
    assert entry.matrix is not None
    assert entry.matrix.axes == {"x": ["007"]}
    assert [requirement.min_value for requirement in entry.requirements] == [7]
    tree = plain(loaded.tree)["entries"][0]
    assert (tree["timeout_s"], tree["repeat"], tree["requirements"][1]["min_value"]) == (7, 3, 7)
    (late,) = files.problems(text, environ={**known, "N": "11"})
    assert "timeout_s 11 is above max_timeout_s 10" in late


@pytest.mark.parametrize("text", ["'${N}0'", "'${W}'", "'7'", "'${N}${N}'", "'$${N}'"])
def test_other_quoted_values_are_strings(files: ConfigFiles, text: str) -> None:
    (problem,) = files.problems(
        f"entries: [{{name: a, script: x, timeout_s: {text}}}]\n", environ={"N": "7", "W": "seven"}
    )
    assert "expected a number of seconds" in problem


@pytest.mark.parametrize("refusal", ["null", "false", "~"])
def test_an_entry_may_refuse_the_cluster(files: ConfigFiles, refusal: str) -> None:
    text = f"""
    ray: {{num_cpus: 2}}
    entries: [{{name: a, script: x}}, {{name: b, script: x, ray: {refusal}}}, {{name: c, script: x, ray: {{}}}}]
    """
    config = files.load(text).config
    clusters = [config.ray_for(entry) for entry in config.entries]
    assert [cluster and cluster.num_cpus for cluster in clusters] == [2, None, 2]
    again = files.load(text, "entries: [{name: b, ray: {num_gpus: 1}}]\n").config
    assert (cluster := again.ray_for(again.entries[1])) is not None
    assert (cluster.num_cpus, cluster.num_gpus) == (2, 1)
    under = files.load("defaults: {ray: {num_cpus: 3}}\n", text).config
    assert under.ray_for(under.entries[1]) is None


def test_true_is_no_cluster(files: ConfigFiles) -> None:
    for text in ("entries: [{name: a, script: x, ray: true}]\n", ENTRY + "ray: false\n"):
        (problem,) = files.problems(text)
        assert "ray: expected a mapping, got " in problem


def test_a_list_cannot_be_appended_to_a_string(files: ConfigFiles) -> None:
    base = "entries:\n  - name: e\n    script: e.py\n    args: --x 1\n"
    problems = files.problems(base + "nope: 1\n", "entries:\n  - name: e\n    args: !append [--y]\n")
    assert problems == [
        "a.yaml:5: unknown key 'nope'",
        "b.yaml:3: args: cannot append a list to the string at a.yaml:4; write args as a list in both",
    ]
    (problem,) = files.problems(
        "defaults: {args: --x}\nentries: [{name: e, script: e, args: !append [--y]}]\n"
    )
    assert "cannot append a list to the string at a.yaml:1" in problem
    assert files.load(
        base.replace("--x 1", "[--x]"), "entries: [{name: e, args: !append [--y]}]\n"
    ).config.entries[0].args == ["--x", "--y"]
