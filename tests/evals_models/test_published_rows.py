"""Rows as benchmarks' authors publish them: asked by their own templates, or refused in one line; never without."""

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.evals.benchmarks.aime import Aime2025, extract, right
from paceline.evals.benchmarks.infinite_bench import InfiniteBench
from paceline.evals.benchmarks.longbench import LongBench, LongBenchV2
from paceline.evals.benchmarks.loogle import Loogle
from paceline.evals.benchmarks.prompts import fill, read_templates
from paceline.evals.benchmarks.rows import DataError
from paceline.evals.benchmarks.ruler import Ruler
from paceline.evals.interfaces import EvalBenchmark, Prediction, Sample

LONGBENCH_ROW = {
    "input": "Who built {the} mill?",
    "context": "Anna built it. {context}",
    "answers": ["Anna"],
    "length": 5,
    "dataset": "qasper",
    "language": "en",
    "all_classes": None,
    "_id": "1",
}
V2_ROW = {
    "_id": "1",
    "difficulty": "easy",
    "length": "short",
    "question": " Which? ",
    "choice_A": "one",
    "choice_B": "two",
    "choice_C": "three",
    "choice_D": "four",
    "answer": "B",
    "context": " The text. ",
}


def load(
    benchmark: EvalBenchmark, place: Path, subset: str, *rows: dict[str, Any], name: str = ""
) -> list[Sample]:
    place.mkdir(exist_ok=True)
    (place / f"{name or subset}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(benchmark.load(subset, data_dir=place, revision=None))


@pytest.mark.parametrize(
    ("asked", "subset", "row", "name"),
    [
        (LongBench(), "qasper", LONGBENCH_ROW, "config/dataset2prompt.json"),
        (LongBench(), "trec_e", LONGBENCH_ROW, "config/dataset2prompt.json"),
        (LongBenchV2(), "0shot", V2_ROW, "the directory prompts"),
        (
            InfiniteBench(),
            "passkey",
            {"context": "c", "input": "q", "answer": "7", "options": []},
            "src/prompt.py",
        ),
        (
            Loogle(),
            "shortdep_qa",
            {"input": "t", "qa_pairs": "[]", "output": "none"},
            "config/task2prompt.json",
        ),
    ],
)
def test_without_the_authors_templates_they_are_refused(
    tmp_path: Path, asked: EvalBenchmark, subset: str, row: dict[str, Any], name: str
) -> None:
    if subset == "shortdep_qa":
        row = {**row, "qa_pairs": [{"Q": "q", "A": "a"}]}
    with pytest.raises(
        DataError, match=rf"{subset}\.jsonl:1: rows of \w+ as published have no prompts: name .*{name}"
    ):
        load(asked, tmp_path, subset, row)


def test_longbench_is_asked_as_its_templates_say(tmp_path: Path) -> None:
    templates = {"qasper": "Read.\n{context}\nNow: {input}\nAnswer:", "lcc": "Go on: {context}Next:\n"}
    (tmp_path / "dataset2prompt.json").write_text(json.dumps(templates))
    benchmark = LongBench(prompts=str(tmp_path / "dataset2prompt.json"))
    (sample,) = load(benchmark, tmp_path, "qasper", LONGBENCH_ROW)
    assert sample.context == "Read.\nAnna built it. {context}"
    assert (sample.question, sample.answer_prefix) == ("\nNow: Who built {the} mill?\nAnswer:", "")
    assert (sample.max_new_tokens, sample.plain, sample.references) == (128, False, ("Anna",))
    (code,) = load(benchmark, tmp_path, "lcc_e", LONGBENCH_ROW)
    assert (code.question, code.max_new_tokens, code.plain) == ("Next:\n", 64, True)
    with pytest.raises(DataError, match="has no prompt for trec"):
        load(benchmark, tmp_path, "trec", LONGBENCH_ROW)
    assert [path.name for path in benchmark.files("lcc_e", tmp_path)] == [
        "lcc_e.jsonl",
        "dataset2prompt.json",
    ]
    assert set(LongBench.budgets) == {part for part in LongBench.parts if not part.endswith("_e")}


def test_longbench_v2_has_its_choices(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    letters = " ".join(f"({letter}) $C_{letter}$" for letter in "ABCD")
    (prompts / "0shot.txt").write_text(f"<text>\n$DOC$\n</text>\nCosts $5. $Q$ {letters}")
    benchmark = LongBenchV2(prompts=str(prompts))
    (sample,) = load(benchmark, tmp_path / "data", "0shot", V2_ROW, name="data")
    assert sample.context == "<text>\nThe text." and sample.max_new_tokens == 128
    assert sample.question == "\n</text>\nCosts $5. Which? (A) one (B) two (C) three (D) four"
    with pytest.raises(DataError, match="asked in two steps for cot"):
        load(benchmark, tmp_path / "data", "cot", V2_ROW, name="data")


INFINITE = '''
"""Templates, which are read and never run."""
raise SystemExit("run")
some_templates = {
    "passkey": "Find it.\\n{context}\\n{input} $$MASK$$",
    "code_run": "{context} What is {func_call} of {func}?",
    "math_find": "{prefix}\\n{context}\\n{input}",
    "longbook_choice_eng": "{context}\\n{question} A. {OPTION_A} D. {OPTION_D}",
    "odd": "a" + "b",
}
'''


def test_infinite_bench_by_the_templates_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "prompt.py").write_text(INFINITE)
    benchmark = InfiniteBench(prompts=f"{tmp_path}/prompt.py:some_templates")
    row: dict[str, Any] = {"id": 0, "context": "c", "input": "What?", "answer": "7", "options": []}

    def prompt(subset: str, **changed: Any) -> tuple[str, tuple[str, ...]]:
        (sample,) = load(benchmark, tmp_path / "data", subset, {**row, **changed})
        return sample.context + sample.question, sample.references

    assert prompt("passkey") == ("Find it.\nc\nWhat? $$MASK$$", ("7",))
    called = prompt("code_run", input="Compute func_12(-3) now")
    assert called[0] == "c What is func_12(-3) of func_12?"
    found = prompt("math_find", input="You find: The second smallest number of the list is")
    assert found[0].startswith("What is the second smallest number in the following list?")
    options = ["w", "x", "y", "z"]
    assert prompt("longbook_choice_eng", options=options, answer="y") == ("c\nWhat? A. w D. z", ("y", "C"))
    assert prompt("longbook_choice_eng", options=options, answer=["y", "C"])[1] == ("y", "C")
    with pytest.raises(DataError, match="none of its options"):
        prompt("longbook_choice_eng", options=options, answer="?")
    with pytest.raises(DataError, match="calls no function"):
        prompt("code_run")
    with pytest.raises(DataError, match="assigns no dictionary to 'others'"):
        read_templates(f"{tmp_path}/prompt.py:others")
    assert set(InfiniteBench.budgets) == set(InfiniteBench.parts)


def test_loogle_rows_hold_several_questions_and_masks_are_pooled(tmp_path: Path) -> None:
    templates = {
        "shortdep_cloze": "Such as {{'<mask-0>': 'x'}}\n{input}\n {Q}?",
        "longdep_summarization": "{input} Sum:",
    }
    (tmp_path / "task2prompt.json").write_text(json.dumps(templates))
    benchmark = Loogle(prompts=str(tmp_path / "task2prompt.json"))
    pairs = [
        {"Q": "a", "A": {"<mask-0>": "Bo"}},
        {"Q": "b", "A": {"<mask-0>": "Al", "<mask-1>": "Cy", "<mask-2>": "Di"}},
    ]
    row = {"input": "text", "title": "t", "qa_pairs": repr(pairs), "output": "None"}
    samples = load(benchmark, tmp_path, "shortdep_cloze", row)
    assert [sample.question for sample in samples] == ["\n a?", "\n b?"]
    assert samples[0].context == "Such as {'<mask-0>': 'x'}\ntext" and samples[0].max_new_tokens == 50
    said = ["{'<mask-0>': 'Bo'}", "{'<mask-0>': 'Al', '<mask-1>': 'no'}"]
    predictions = {
        one.id: Prediction(sample_id=one.id, text=text) for one, text in zip(samples, said, strict=True)
    }
    scores = benchmark.score(samples, predictions)
    assert scores.metrics["score"].value == 2 / 4, "two of four masks; the mean over questions would be 2/3"
    assert scores.weights == {samples[0].id: 1, samples[1].id: 3}
    whole = {"input": "text", "qa_pairs": "none", "output": "A summary."}
    (summary,) = load(benchmark, tmp_path, "longdep_summarization", whole)
    assert (summary.question, summary.references) == (" Sum:", ("A summary.",))


def test_ruler_as_its_scripts_write_it(tmp_path: Path) -> None:
    row = {
        "index": 0,
        "input": "Some text.\nWhat is it?",
        "outputs": ["7", "8"],
        "length": 9,
        "answer_prefix": " It is",
    }
    (tmp_path / "vt").mkdir()
    (tmp_path / "vt" / "validation.jsonl").write_text(json.dumps(row))
    (sample,) = Ruler().load("vt", data_dir=tmp_path, revision=None)
    assert (sample.context, sample.question, sample.answer_prefix) == (
        "Some text.\n",
        "What is it?",
        " It is",
    )
    assert (sample.references, sample.max_new_tokens) == (("7", "8"), 30)


def test_aime_rows_of_problems_and_answers_in_every_published_form(tmp_path: Path) -> None:
    row = {"problem": "What is 2 + 2?", "answer": "004"}
    (sample,) = load(Aime2025(), tmp_path, "aime2025", row)
    assert "Problem: What is 2 + 2?" in sample.context and sample.references == ("004",)
    for form in ("70", "070", "['70']", '["70"]', "70.0", "$70$", r"70^\circ", r"\boxed{70}", "[70]"):
        assert right(r"So it is \boxed{70}.", [form]) == 1.0, form
    for said, found in (
        (r"\boxed{23.0}", 23),
        ("The solution is 23, not 24", 23),
        (r"\boxed{336^\circ}", 336),
        (r"\boxed{1{,}023}", 1023),
        (r"the answer is \(042\).", 42),
        (r"\boxed{m+n=17}", 17),
        (r"\fbox{12}", 12),
        ("So 3 times 4 is 12", 12),
        (r"\boxed{23.5}", None),
        ("none", None),
    ):
        assert extract(said) == found, said


def test_what_is_filled_in_is_not_filled_again() -> None:
    assert fill("{a}-{b}", {"a": "{b}", "b": "x"}, "a") == ("{b}", "-x")
    with pytest.raises(DataError, match=r"wants \{c\}"):
        fill("{a}{c}", {"a": "1"}, "a")
    with pytest.raises(DataError, match="no place for the a"):
        fill("{b}", {"b": "1"}, "a")
