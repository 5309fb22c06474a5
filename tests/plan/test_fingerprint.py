"""A fingerprint changes with what decides the result, and with nothing else."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.model import Case, Limits, Requirement, Resources
from paceline.plan.fingerprints import FileHashes, Fingerprints, fingerprint
from plan.suites import Planner, entry

CASE = Case(
    name="a[x=1]",
    entry="a",
    key="a[x=1]",
    params={"x": 1, "y": "z"},
    argv=("run", "--n", "1"),
    env={"A": "1", "B": "2"},
    cluster={"num_cpus": 2, "num_gpus": 0},
    requirements=(Requirement(metric="m", kind="max_value", bound=1.5),),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "b"},
        {"params": {"x": 2, "y": "z"}},
        {"params": {"x": "1", "y": "z"}},
        {"version": "2"},
        {"argv": ("run", "--n", "2")},
        {"argv": ("run", "--n 1")},
        {"env": {"A": "1", "B": "3"}},
        {"cwd": "/x"},
        {"timeout_s": 1.0},
        {"resources": Resources(cpus=2)},
        {"limits": Limits(processes=1)},
        {"cluster": {"num_cpus": 3, "num_gpus": 0}},
        {"cluster": None},
        {"requirements": ()},
        {"requirements": (Requirement(metric="m", kind="max_value", bound=1.5, severity="warn"),)},
        {"repeat": 2},
        {"warmup": 1},
    ],
)
def test_it_changes_with_what_decides(change: dict[str, Any]) -> None:
    assert fingerprint(replace(CASE, **change)) != fingerprint(CASE)


@pytest.mark.parametrize(
    "change",
    [
        {"params": {"y": "z", "x": 1}},
        {"env": {"B": "2", "A": "1"}},
        {"cluster": {"num_gpus": 0, "num_cpus": 2}},
        {"tags": ("t",)},
        {"retries": 3},
        {"needs": ("other",)},
    ],
)
def test_it_stays_with_what_does_not(change: dict[str, Any]) -> None:
    assert fingerprint(replace(CASE, **change)) == fingerprint(CASE)


def test_it_is_the_same_in_every_release() -> None:
    # Sessions that were begun by an older release must be resumed by a newer one.
    known = "0fcf4b184ab06608f323fe0029148ab45d4bba7145494f367f16b80cde6fe681"
    assert fingerprint(CASE) == Fingerprints(now=known, former=known)


EVERYTHING = """
default_timeout_s: 60
env: {SHARED: '${PLAIN:-none}', BOTH: top}
secrets: [HIDDEN]
paths: [{name: models, host_path: /srv/models}]
datasets: {words: {text: '${DATA:-/data}/words.txt'}}
ray: {num_cpus: 2}
data_setups: [{name: fetch, command: "fetch --to '{session_dir}/my data'", timeout_s: 5}]
entries:
  - name: sort
    command: [sort, --in, '{dataset:words,text}', '--m={models}/{{x}}', '$${A}', '${NO:-{session_name}}']
    args: --rows {matrix.rows} --key ${HIDDEN} '{needs:fetch}'
    env: {BOTH: '{benchmark_results_path}', MY_TOKEN: '${OTHER}'}
    matrix: {rows: [10, 1e3], include: [{rows: 10, mode: fast}]}
    needs: [fetch]
    requirements: [{metric: m, min_value: 1, max_value: 2, tolerance: 5%}, {metric: ok, exact_value: true}]
    resources: {cpus: 2, memory: 1GiB, labels: {disk: fast}}
    limits: {processes: 9, memory: 2GiB}
    repeat: 2
    version: 1.10
  - {name: plain, command: 'true', cwd: /, ray: false, needs: ['sort[mode=fast,rows=10]']}
"""


def test_those_of_a_plan_are_the_same_in_every_release(plan: Planner) -> None:
    made = plan(EVERYTHING, {"HIDDEN": "s3cret-value", "OTHER": "an-other-one", "PLAIN": "p"})
    assert {case.name: case.former_fingerprint for case in (*made.setups, *made.cases)} == {
        "fetch": "6538188300a4d779d127a98d702b24da5a61e00120efe52ccc686335bed62359",
        "sort[mode=fast,rows=10]": "dfcd8cbac30fa59189cc5a74c59ba7d25be290603b15d1e7c997c1c9a8e1c07f",
        "sort[rows=1000.0]": "f0c3b51935c4897e67e430e35617fd12b06887a42862d6112e943aad45a71953",
        "plain": "aeccf91afb7005977fe336258312d2f776f29280cf5e5b6dddd01b8acc2a8773",
    }
    # Of those with a secret, and of what needs them, formula 2 makes others.
    assert made.setups[0].fingerprint == made.setups[0].former_fingerprint
    assert all(case.formula == 2 and case.fingerprint != case.former_fingerprint for case in made.cases)


def test_the_script_counts_by_its_content(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("1")
    first = FileHashes().of(str(script))
    script.write_text("2")
    hashes = FileHashes()
    second = hashes.of(str(script))
    assert first != second
    script.write_text("3")
    assert hashes.of(str(script)) == second
    assert fingerprint(CASE, script_hash=first) != fingerprint(CASE, script_hash=second)


@given(st.dictionaries(TEXTS, TEXTS), st.lists(TEXTS), st.randoms())
def test_the_order_of_mappings_never_counts(env: dict[str, str], argv: list[str], random: Any) -> None:
    items = list(env.items())
    random.shuffle(items)
    first = replace(CASE, env=env, argv=tuple(argv))
    assert fingerprint(first) == fingerprint(replace(first, env=dict(items)))


@given(st.lists(TEXTS), st.lists(TEXTS))
def test_different_arguments_differ(first: list[str], second: list[str]) -> None:
    same = fingerprint(replace(CASE, argv=tuple(first))) == fingerprint(replace(CASE, argv=tuple(second)))
    assert same == (first == second)


PLACES = entry(
    "args: '{session}/x {session_dir} {session_name} {results_dir} {artifacts_dir} {needs:s}'",
    "env: {A: '{session_dir}/y', B: '{benchmark_results_path}'}",
    "cwd: '{scratch_dir}'",
    "needs: [s]",
)


def test_the_place_of_the_session_does_not_count(plan: Planner, tmp_path: Path) -> None:
    text = "data_setups: [{name: s, command: [x]}]\n" + PLACES
    first = plan(text, session="a", results_dir=tmp_path / "r1").cases[0]
    second = plan(text, session="b", results_dir=tmp_path / "r2").cases[0]
    assert first.argv != second.argv
    assert first.fingerprint == second.fingerprint


def test_a_new_token_makes_no_new_benchmark(plan: Planner) -> None:
    text = "secrets: [PLAIN]\n" + entry(
        "args: --t=${API_TOKEN} --p ${PLAIN} --v ${OTHER}", "env: {MY_KEY: '${SOMETHING}'}"
    )

    def made(**changes: str) -> str:
        known = {"API_TOKEN": "t0ken-one", "PLAIN": "plain1", "OTHER": "other1", "SOMETHING": "some-key-1"}
        return plan(text, known | changes).cases[0].fingerprint

    assert made() == made(API_TOKEN="t0ken-two") == made(PLAIN="plain2") == made(SOMETHING="some-key-2")
    assert made() != made(OTHER="other2")
    assert made() == made(UNRELATED_KEY="other1")


def test_a_secret_counts_as_the_name_of_its_variable(plan: Planner) -> None:
    known = {"A_TOKEN": "t0ken-one", "B_TOKEN": "t0ken-two"}
    (first,) = plan(entry("args: --t ${A_TOKEN}"), known).cases
    (second,) = plan(entry("args: --t ${B_TOKEN}"), known).cases
    assert first.fingerprint != second.fingerprint
    assert first.former_fingerprint == second.former_fingerprint


def test_a_new_password_in_a_url_makes_no_new_benchmark(plan: Planner) -> None:
    text = entry("args: --queue ${REDIS_URL}")

    def made(url: str) -> str:
        return plan(text, {"REDIS_URL": url}).cases[0].fingerprint

    assert made("redis://:pa55word-1@host/0") == made("redis://:pa55word-2@host/0")
    assert made("redis://:pa55word-1@host/0") != made("redis://:pa55word-1@host/1")


@pytest.mark.parametrize(
    "lines", [("env: {MAX_TOKENS: '4096'}", "args: --seq 4096"), ("env: {MAX_TOKENS: '4096'}",)]
)
def test_what_only_has_the_name_of_a_secret_counts(plan: Planner, lines: tuple[str, ...]) -> None:
    (before,) = plan(entry(*lines)).cases
    (after,) = plan(entry(*(line.replace("4096", "8192") for line in lines))).cases
    assert before.fingerprint != after.fingerprint
    assert before.former_fingerprint == after.former_fingerprint, "which is why there is a second formula"


def test_a_variable_taken_out_counts(plan: Planner) -> None:
    text = "not_secrets: [SORT_KEY]\n" + entry("args: --key ${SORT_KEY}")
    made = [plan(text, {"SORT_KEY": key}).cases[0].fingerprint for key in ("by-name-1", "by-name-2")]
    assert made[0] != made[1]


@pytest.mark.parametrize(
    ("formula", "stored", "is_same"),
    [(2, "now", True), (2, "old", False), (1, "old", True), (1, "now", False), (1, "other", False)],
)
def test_a_record_is_held_against_the_formula_that_it_was_made_by(
    formula: int, stored: str, is_same: bool
) -> None:
    case = replace(CASE, fingerprint="now", formula=2, former_fingerprint="old")
    assert case.is_same_work(replace(CASE, fingerprint=stored, formula=formula)) is is_same


def test_the_script_of_a_plan_counts(plan: Planner, suite: Path) -> None:
    before = plan(entry()).cases[0].fingerprint
    assert plan(entry()).cases[0].fingerprint == before
    (suite / "scripts" / "bench.py").write_text("changed")
    assert plan(entry()).cases[0].fingerprint != before


CHAIN = """
data_setups: [{name: fetch, command: [fetch, "V0"]}]
entries:
  - {name: last, command: [x], needs: [middle]}
  - {name: middle, command: [x], needs: [first, fetch]}
  - {name: first, command: [x, "V1"]}
  - {name: free, command: [x]}
"""


@pytest.mark.parametrize(
    ("old", "changed"), [("V1", {"first", "middle", "last"}), ("V0", {"middle", "last"}), ("V9", set())]
)
def test_a_changed_producer_changes_its_consumers(plan: Planner, old: str, changed: set[str]) -> None:
    before = {case.name: case.fingerprint for case in plan(CHAIN).cases}
    after = {case.name: case.fingerprint for case in plan(CHAIN.replace(old, "new")).cases}
    assert {name for name in before if before[name] != after[name]} == changed
    chosen = {case.name: case.fingerprint for case in plan(CHAIN, only=["last"]).cases}
    assert chosen == {name: before[name] for name in ("first", "middle", "last")}


def test_the_order_of_needs_does_not_count() -> None:
    a, b = Fingerprints("a", "a"), Fingerprints("b", "b")
    assert fingerprint(CASE, needs=[a, b]) == fingerprint(CASE, needs=[b, a]) != fingerprint(CASE)


@pytest.mark.parametrize(
    ("command", "counts"),
    [("[./prog]", True), ("[DIR/prog]", True), ("[prog]", False), ("[sh, ./prog]", False), ("[./]", False)],
)
def test_the_program_of_a_command_counts_by_its_content(
    plan: Planner, suite: Path, command: str, counts: bool
) -> None:
    text = f"entries: [{{name: a, command: {command.replace('DIR', str(suite))}, cwd: .}}]\n"
    (suite / "prog").write_text("1")
    before = plan(text).cases[0].fingerprint
    (suite / "prog").write_text("2")
    assert (plan(text).cases[0].fingerprint != before) == counts


def test_what_is_not_a_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert FileHashes().of("/dev/zero") == FileHashes().of(str(tmp_path / "pipe")) == ""
