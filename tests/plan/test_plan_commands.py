"""What a case runs: its program, arguments, placeholders, environment and directory."""

import sys
from pathlib import Path

import pytest

from paceline.config import paths
from paceline.config.load import load
from paceline.model import RUN_DIR
from paceline.plan import make_plan
from plan.suites import ONE, Planner, args_of, entry, problem_of


def test_a_script_gets_python_and_the_results_flag(plan: Planner, suite: Path) -> None:
    (case,) = plan(ONE).cases
    assert case.name == case.key == case.entry == "one"
    assert case.argv == (
        sys.executable,
        str(suite / "scripts" / "bench.py"),
        "--benchmark-results-path",
        f"{RUN_DIR}/benchmark_results",
    )
    assert case.results_path == f"{RUN_DIR}/benchmark_results"
    assert case.metrics_required
    assert (case.timeout_s, case.grace_s, case.cluster, case.blocked) == (7200, 5, None, None)
    assert (case.source.file, case.source.line) == (str(suite / "suite.yaml"), 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--benchmark-results-path {session}/out", f"{RUN_DIR}/out"),
        ("--benchmark-results-path={session_entry_dir}", RUN_DIR),
        ("--benchmark-results-path /abs/x", "/abs/x"),
        ("--benchmark-results-path={benchmark_results_path}/sub", f"{RUN_DIR}/benchmark_results/sub"),
    ],
)
def test_a_results_path_of_the_entry_is_kept(plan: Planner, given: str, expected: str) -> None:
    (case,) = plan(entry(f"args: {given} --log {{benchmark_results_path}}/log")).cases
    assert case.results_path == expected
    assert case.argv[-1] == f"{expected}/log"
    assert sum("--benchmark-results-path" in word for word in case.argv) == 1


def test_a_relative_results_path_is_one_in_the_working_directory(plan: Planner, suite: Path) -> None:
    (suite / "work").mkdir()
    (case,) = plan(entry("cwd: work", "args: --benchmark-results-path out")).cases
    assert case.cwd == str(suite / "work")
    assert case.results_path == str(suite / "work" / "out")
    assert case.argv[-1] == "out"


def test_a_results_flag_without_value(plan: Planner) -> None:
    assert "has no value" in problem_of(plan, entry("args: --benchmark-results-path"))


def test_a_command_is_taken_as_it_is(plan: Planner) -> None:
    found = plan("entries:\n  - {name: a, command: ['no-such-program', 1.10, true, 'a b', '']}\n")
    (case,) = found.cases
    assert case.argv == ("no-such-program", "1.10", "true", "a b", "")
    assert not case.metrics_required


def test_a_command_with_arguments_apart(plan: Planner) -> None:
    (case,) = plan("entries:\n  - {name: a, command: \"echo 'a b'\", args: [c d]}\n").cases
    assert case.argv == ("echo", "a b", "c d")


def test_a_data_setup_has_no_flag_and_needs_no_metrics(plan: Planner, suite: Path) -> None:
    (suite / "data_prep").mkdir()
    (suite / "data_prep" / "fetch.py").write_text("")
    found = plan(f"data_setups:\n  - {{name: fetch, script: fetch.py, args: '{{session}}/x'}}\n{ONE}")
    (setup,) = found.setups
    assert setup.kind == "data_setup"
    assert setup.argv == (sys.executable, str(suite / "data_prep" / "fetch.py"), f"{RUN_DIR}/x")
    assert not setup.metrics_required


def test_every_placeholder(plan: Planner, suite: Path) -> None:
    (suite / ".git").mkdir()
    names = [
        "session",
        "session_entry_dir",
        "scratch_dir",
        "session_dir",
        "session_name",
        "results_dir",
        "artifacts_dir",
        "config_dir",
        "repo_dir",
        "curator_repo_dir",
        "python",
        "models",
    ]
    text = "paths: [{name: models, host_path: /m, container_path: /c}]\n"
    found = plan(text + entry("args: [" + ", ".join(f"'{{{name}}}'" for name in names) + "]"))
    results = str(suite / "results")
    assert args_of(found) == [
        RUN_DIR,
        RUN_DIR,
        f"{RUN_DIR}/scratch",
        f"{results}/night",
        "night",
        results,
        f"{results}/artifacts",
        str(suite),
        str(suite),
        str(suite),
        sys.executable,
        "/m",
    ]


def test_the_repository_is_that_of_the_file(plan: Planner, suite: Path) -> None:
    pointer = suite.parent / ".git"
    pointer.write_text("gitdir: elsewhere\n")
    try:
        assert args_of(plan(entry("args: '{repo_dir}'"))) == [str(suite.parent)]
    finally:
        pointer.unlink()  # the directory is shared with other tests


@pytest.mark.parametrize(
    ("path", "outside", "inside", "mounted"),
    [
        ("{name: p, host_path: /h}", "/h", "/h", "MOUNT/h"),
        ("{name: p, host_path: /h, container_path: /c}", "/h", "/c", "/c"),
        (
            "{name: p, host_path: '{q}/h'}, {name: q, host_path: /q, container_path: /cq}",
            "/q/h",
            "/q/h",
            "MOUNT/q/h",
        ),
        (
            "{name: p, host_path: /h, container_path: '{q}/c'}, {name: q, host_path: /q}",
            "/h",
            "/q/c",
            "MOUNT/q/c",
        ),
        ("{name: p, host_path: '${ROOT:-/r}/h'}", "/r/h", "/r/h", "MOUNT/r/h"),
    ],
)
def test_paths_on_the_host_and_in_a_container(
    plan: Planner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    outside: str,
    inside: str,
    mounted: str,
) -> None:
    text = f"paths: [{path}]\n" + entry("args: '{p}'")
    mount = tmp_path / "mount"
    monkeypatch.setattr(paths, "MOUNT", mount)
    assert args_of(plan(text)) == [outside]
    assert args_of(plan(text, environ={"container": "podman"})) == [inside]
    mount.mkdir()
    assert args_of(plan(text, environ={"container": "podman"})) == [mounted.replace("MOUNT", str(mount))]


def test_data_sets(plan: Planner, suite: Path) -> None:
    text = f"""
paths: [{{name: data, host_path: "{suite}/my data"}}]
datasets:
  - name: cc
    formats: [{{type: jsonl, path: "{{data}}/cc.jsonl"}}, {{type: parquet, path: "${{P:-/p q}}/x"}}]
entries:
  - {{name: a, script: bench.py, args: "--in {{dataset:cc,jsonl}} --in2={{ dataset: cc , parquet }}"}}
"""
    found = plan(text)
    assert args_of(found) == ["--in", f"{suite}/my data/cc.jsonl", "--in2=/p q/x"]
    assert found.warnings == (
        f"data set cc,jsonl: {suite}/my data/cc.jsonl does not exist (used by a)",
        "data set cc,parquet: /p q/x does not exist (used by a)",
    )


def test_data_that_is_there_or_far_away_gives_no_warning(plan: Planner, suite: Path) -> None:
    data = f'{{here: {{d: "{suite}"}}, far: {{d: "s3://bucket/x"}}, unused: {{d: /nowhere}}}}'
    text = f"datasets: {data}\n" + entry("args: '{dataset:here,d} {dataset:far,d}'")
    assert plan(text).warnings == ()


def test_nested_json_survives(plan: Planner) -> None:
    data = '{"a": {"b": [{}, {"c": "{session}"}]}}'
    expected = data.replace("{session}", RUN_DIR)
    assert args_of(plan(entry(f"args: >-\n      --j '{data}' {{{{session}}}}"))) == [
        "--j",
        expected,
        "{session}",
    ]
    assert args_of(plan(entry(f"args: ['{data}', '{{{{session}}}}']"))) == [expected, "{session}"]


def test_values_are_neither_split_nor_read_again(plan: Planner) -> None:
    nasty = "a b 'c\" {session} ${HOME} $$"
    found = plan(entry("args: --x ${NASTY} --y={matrix.m}", "matrix: {m: ['{session} z']}"), {"NASTY": nasty})
    assert args_of(found) == ["--x", nasty, "--y={session} z"]


def test_a_default_may_hold_a_placeholder(plan: Planner) -> None:
    found = plan(entry("args: '${OUT:-{session}/a b} ${SET:-{session}}'"), {"SET": "{session}"})
    assert args_of(found) == [f"{RUN_DIR}/a b", "{session}"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["args: '{sesion}'"], ":5: entries[0].args: {sesion}: unknown placeholder; did you mean {session}?"),
        (["args: ['x', '{dataset:cc,jsonl}']"], "unknown data set 'cc'; did you mean 'ccc'?"),
        (["args: '{dataset:ccc,json}'"], "data set 'ccc' has no format 'json'; it has jsonl"),
        (["args: '{dataset:ccc}'"], "data set 'ccc' has no format ''"),
        (["args: '{matrix.a}'"], "{matrix.a}: the case has no such parameter; it has no matrix"),
        (["args: '{matrix.sise}'", "matrix: {size: [1]}"], "did you mean {matrix.size}?"),
        (["env: {A: '{nope_nope}'}"], "entries[0].env.A: {nope_nope}: unknown placeholder"),
        (["cwd: '{nope_nope}'"], "entries[0].cwd: {nope_nope}"),
        (['args: "--a \'b"'], ":5: entries[0].args: a quote is not closed"),
        (["args: 'b\\'"], "nothing follows the last backslash"),
        (["args: '{needs:other}'"], "'other' is not a case that this one needs; add it to 'needs'"),
        (["cwd: /", "interpreter: '{session}\"'"], "entries[0].interpreter: a quote is not closed"),
    ],
)
def test_problems_name_file_line_and_remedy(plan: Planner, suite: Path, lines: list[str], words: str) -> None:
    message = problem_of(plan, entry(*lines) + "datasets: {ccc: {jsonl: /x}}\n")
    assert message.startswith(f"{suite}/suite.yaml:")
    assert words in message
    assert "\n" not in message


def test_circles_in_definitions(plan: Planner) -> None:
    paths = "paths: [{name: p, host_path: '{q}'}, {name: q, host_path: 'x{p}'}]\n"
    assert "break the circle" in problem_of(plan, paths + entry("args: '{p}'"))
    data = "datasets: {a: {x: '{dataset:b,x}'}, b: {x: '{dataset:a,x}'}}\n"
    assert "break the circle" in problem_of(plan, data + entry("args: '{dataset:a,x}'"))
    assert plan(paths + data + ONE).cases


@pytest.mark.parametrize("name", ["session", "repo_dir", "my-path"])
def test_path_names_that_cannot_be_used(plan: Planner, name: str) -> None:
    assert "paths[0].name" in problem_of(plan, f"paths: [{{name: {name}, host_path: /x}}]\n{ONE}")


def test_script_lookup_order(plan: Planner, suite: Path) -> None:
    places = [suite / "own", suite / "top", suite / "scripts", suite]
    for place in places:
        place.mkdir(exist_ok=True)
        (place / "x.py").write_text("")
    text = (
        "script_base_dir: top\nentries:\n  - {name: a, script: x.py, script_base_dir: '{config_dir}/own'}\n"
    )
    for place in places:
        assert plan(text).cases[0].argv[1] == str(place / "x.py")
        (place / "x.py").unlink()
    message = problem_of(plan, text)
    assert "entries[0].script: 'x.py' is not in " + ", ".join(map(str, places)) in message


def test_an_absolute_script(plan: Planner, suite: Path) -> None:
    script = suite / "scripts" / "bench.py"
    assert plan(f"entries: [{{name: a, script: '{script}'}}]\n").cases[0].argv[1] == str(script)
    assert "is not there" in problem_of(plan, "entries: [{name: a, script: /no/where.py}]\n")


def test_other_languages(plan: Planner, suite: Path) -> None:
    script = suite / "bench.sh"
    script.write_text("#!/bin/sh\n")
    text = "entries: [{name: a, script: bench.sh}]\n"
    assert "chmod +x" in problem_of(plan, text)
    script.chmod(0o755)
    assert plan(text).cases[0].argv[0] == str(script)
    script.chmod(0o644)
    (case,) = plan("entries: [{name: a, script: bench.sh, interpreter: sh -e}]\n").cases
    assert case.argv[:3] == ("sh", "-e", str(script))


def test_the_environment_of_a_case(plan: Planner) -> None:
    found = plan(
        "env: {A: '1', B: '{session_dir}', C: top}\n" + entry("env: {C: own, D: '${X} y'}"),
        {"X": "{session}"},
    )
    (case,) = found.cases
    directory = str(found.directory)
    assert case.env == {"A": "1", "B": directory, "C": "own", "D": "{session} y"}


def test_a_working_directory(plan: Planner, suite: Path) -> None:
    assert plan(entry("cwd: '{scratch_dir}'")).cases[0].cwd == f"{RUN_DIR}/scratch"
    found = plan(entry("cwd: nowhere"))
    assert found.cases[0].cwd == str(suite / "nowhere")
    assert "does not exist" in found.warnings[0]


def test_files_merge_and_each_value_knows_its_file(suite: Path, outside_container: None) -> None:

    other = suite / "other"
    other.mkdir()
    (other / "base.yaml").write_text("entries: [{name: a, command: ['{config_dir}'], cwd: w}]\n")
    (suite / "over.yaml").write_text("entries: [{name: a, env: {D: '{config_dir}'}, timeout_s: 5}]\n")
    loaded = load([other / "base.yaml", suite / "over.yaml"])
    (case,) = make_plan(loaded, session="s", results_dir=suite).cases
    assert case.argv == (str(other),)
    assert case.cwd == str(other / "w")
    assert case.env == {"D": str(suite)}
    assert case.timeout_s == 5


def test_a_long_chain_of_definitions(plan: Planner) -> None:
    chain = "".join(f"  d{i}: {{x: '{{dataset:d{i + 1},x}}/{i}'}}\n" for i in range(400))
    text = f"datasets:\n{chain}  d400: {{x: /end}}\n" + entry("args: '{dataset:START,x}'")
    assert "refer to one another" in problem_of(plan, text.replace("START", "d0"))
    assert args_of(plan(text.replace("START", "d360")))[0].startswith("/end/399/398/")


@pytest.mark.parametrize("name", ["x" * 5000, "a/../../b.py", "scripts", "é b.py"])
def test_names_of_scripts_that_cannot_be(plan: Planner, name: str) -> None:
    assert "entries[0].script: " in problem_of(plan, f"entries: [{{name: a, script: '{name}'}}]\n")


def test_data_is_looked_for_from_the_working_directory(plan: Planner, suite: Path) -> None:
    (suite / "work").mkdir()
    (suite / "work" / "x").touch()
    long = "y" * 5000
    text = f"datasets: {{d: {{x: x, long: {long}}}}}\n"
    assert plan(text + entry("cwd: work", "args: '{dataset:d,x}'")).warnings == ()
    assert len(plan(text + entry("cwd: work", "args: '{dataset:d,long}'")).warnings) == 1


@pytest.mark.parametrize("script", ["{session}/a.py", "{session_dir}/a.sh", "/x/{session_name}.py"])
def test_a_script_that_only_a_session_knows_is_a_problem(plan: Planner, script: str) -> None:
    text = f"entries: [{{name: one, script: '{script}'}}]\n"
    told = f"entries[0].script: {script!r} is known only in a session; name a fixed file"
    assert told in problem_of(plan, text)


def test_an_escaped_variable_is_text_with_all_that_is_in_it(plan: Planner) -> None:
    found = plan(
        "entries: [{name: a, command: [sh, -c, '$${A:-${NO}} $${B:-${}}'], env: {X: '$${C ${D}}'}}]\n"
    )
    (case,) = found.cases
    assert (case.argv[2], case.env["X"], case.blocked) == ("${A:-${NO}} ${B:-${}}", "${C ${D}}", None)


def test_a_need_that_makes_no_sense_is_a_problem(plan: Planner) -> None:
    text = entry("args: '{needs:a[${matrix.x}]}'")
    assert "entries[0].args: malformed variable '${matrix.x}]'" in problem_of(plan, text)
