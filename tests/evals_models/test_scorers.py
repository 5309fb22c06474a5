"""Every metric on cases worked out by hand, and against the packages that publish them on random texts."""

import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from paceline.evals.benchmarks import aime, infinite_bench, longbench, loogle, ruler, zero_scrolls
from paceline.evals.benchmarks.loogle import bleu_of
from paceline.evals.benchmarks.scores import ScoreError, qa_f1, qa_f1_characters, rouge_l, rouge_n

WORDS = [
    "the",
    "a",
    "an",
    "red",
    "fox",
    "Fox",
    "jumps",
    "over",
    "lazy",
    "dog.",
    "dog",
    "Paragraph",
    "3",
    "12",
    "7,",
    "it's",
    "class",
    "one.",
    "two",
    "段落",
]


def random_texts(count: int, words: Sequence[str] = WORDS, most: int = 14) -> list[tuple[str, str]]:
    random = Random(7)
    return [
        (
            " ".join(random.choices(words, k=random.randint(0, most))),
            " ".join(random.choices(words, k=random.randint(1, most))),
        )
        for _ in range(count)
    ]


@cache
def lm_eval_module(*parts: str) -> ModuleType:
    """A task's own code; the package does not import it as a part of itself."""
    package = pytest.importorskip("lm_eval", reason="the reference is lm-eval")
    path = Path(package.__file__).parent.joinpath("tasks", *parts)
    spec = importlib.util.spec_from_file_location("reference_" + "_".join(parts).removesuffix(".py"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("task", "prediction", "references", "wanted"),
    [
        ("qasper", "The Red fox!", ["red foxes", "a red fox"], 1.0),
        ("qasper", "red dog", ["red fox"], 0.5),
        ("qasper_e", "Red fox", ["red fox"], 1.0),
        ("narrativeqa", "", ["red fox"], 0.0),
        ("triviaqa", "\nfox\nand more", ["fox"], 1.0),
        ("passage_count", "I count 5, or 5 or 6.", ["5"], 2 / 3),
        ("passage_count", "none", ["5"], 0.0),
        ("passage_retrieval_en", "Paragraph 12 (not 3)", ["Paragraph 12"], 0.5),
        ("passage_retrieval_zh", "段落2", ["段落2"], 1.0),
        ("lcc", "```python\n# sum\nreturn a + b", ["return a + b"], 1.0),
        ("lcc", "", ["return a"], 0.0),
        ("repobench-p", "return a + c", ["return a + b"], 0.92),
        ("gov_report", "the red fox", ["the red fox jumps"], 6 / 7),
        ("gov_report", "", ["the red fox"], 0.0),
        ("multifieldqa_zh", "林梅。", ["林梅"], 1.0),
        ("dureader", "会议结束", ["会议结束"], 1.0),
    ],
)  # fmt: skip
def test_longbench_by_hand(task: str, prediction: str, references: list[str], wanted: float) -> None:
    assert longbench.score(task, prediction, references) == pytest.approx(wanted, abs=1e-7)


def test_longbench_classification_by_hand() -> None:
    classes = ["Person", "City", "Number", "Number of something", "of"]
    score = lambda said, truth: longbench.score("trec", said, [truth], classes)  # noqa: E731
    assert score("City", "City") == 1
    assert score("City or Person", "City") == 0.5
    assert score("Person", "City") == 0
    assert score("Number of something", "Number of something") == 1  # parts of the right name do not count
    assert (
        longbench.classification("a ab abc", "abc", ["a", "ab", "abc"]) == 0.5
    )  # as published: it skips one
    assert score("City\nPerson", "City") == 1  # its first line only


def test_what_cannot_be_scored_is_an_error_not_a_zero() -> None:
    for task, reference in [
        ("gov_report", ""),
        ("passage_retrieval_en", "third"),
        ("trec", "City"),
        ("nothing", "x"),
    ]:
        with pytest.raises(ScoreError):
            longbench.score(task, "said", [reference])
    with pytest.raises(ScoreError):
        infinite_bench.score("code_run", "3", ["three"])
    with pytest.raises(ScoreError):
        aime.right("3", ["three"])
    with pytest.raises(ScoreError):
        loogle.cloze("{}", "no mapping")


def longbench_reference(name: str) -> Callable[[str, str], float]:
    module = lm_eval_module("longbench", "metrics.py")
    return lambda prediction, reference: float(getattr(module, name)(prediction, reference))


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("qasper", "qa_f1_score"),
        ("multifieldqa_zh", "qa_f1_zh_score"),
        ("passage_count", "count_score"),
        ("lcc", "code_sim_score"),
        ("gov_report", "rouge_score"),
        ("dureader", "rouge_zh_score"),
    ],
)
def test_longbench_equals_the_published_program(task: str, name: str) -> None:
    pytest.importorskip("rouge", reason="the reference is the rouge package")
    pytest.importorskip("fuzzywuzzy", reason="the reference is fuzzywuzzy")
    published = longbench_reference(name)
    for prediction, reference in random_texts(150):
        assert longbench.score(task, prediction, [reference]) == pytest.approx(
            published(prediction, reference), abs=1e-12
        )


def test_longbench_classes_equal_the_published_program() -> None:
    pytest.importorskip("rouge", reason="lm-eval's file imports it")
    module = lm_eval_module("longbench", "metrics.py")
    random, names = Random(3), ["a", "ab", "abc", "b", "bc", "c", "d e", "d"]
    for _ in range(300):
        said, truth = " ".join(random.choices(names, k=3)), random.choice(names)
        classes = random.sample(names, len(names))
        wanted = module.classification_score(said, truth, all_classes=classes)
        assert longbench.classification(said, truth, classes) == wanted


def test_rouge_equals_its_package() -> None:
    rouge = pytest.importorskip("rouge", reason="the reference is the rouge package").Rouge()
    for prediction, reference in random_texts(300):
        if not prediction.replace(".", ""):
            assert rouge_l(prediction, reference).f == 0
            continue
        wanted = rouge.get_scores([prediction], [reference])[0]
        found = {f"rouge-{n}": rouge_n(prediction, reference, n) for n in (1, 2)}
        found["rouge-l"] = rouge_l(prediction, reference)
        for name, rouge_score in found.items():
            parts = {"p": rouge_score.precision, "r": rouge_score.recall, "f": rouge_score.f}
            assert parts == wanted[name]


@pytest.mark.filterwarnings("ignore")
def test_bleu_equals_nltk() -> None:
    bleu = pytest.importorskip("nltk.translate.bleu_score", reason="the reference is nltk")
    for prediction, reference in random_texts(300):
        said, wanted = prediction.split(), reference.split()
        for n, weights in ((1, (1, 0, 0, 0)), (4, (0, 0, 0, 1))):
            assert bleu_of(said, wanted, n) == pytest.approx(
                bleu.sentence_bleu([wanted], said, weights=weights), abs=1e-12
            )


def test_infinite_bench_equals_lm_eval_where_both_follow_the_paper() -> None:
    module = lm_eval_module("infinitebench", "utils.py")
    words = ["A", "B.", "the", "answer is:", "12", "3.5", "x:7", "fox", "Fox", "12345"]
    pairs = (
        ("passkey", module.process_results_int_match, "12"),
        ("kv_retrieval", module.process_results_kv, "fox"),
        ("math_find", module.process_results_math, "12"),
        ("longdialogue_qa_eng", module.process_results, "fox"),
    )
    for prediction, _ in random_texts(200, words, 6):
        for task, published, label in pairs:
            wanted = published({"answer": [label]}, [prediction])["score"]
            assert infinite_bench.score(task, prediction, [label]) == wanted, (task, prediction)
        assert qa_f1(prediction, "the fox 12") == module._token_f1(prediction, "the fox 12")
        assert qa_f1_characters(prediction, "fox 12") == module._token_f1(
            prediction, "fox 12", is_chinese=True
        )


@pytest.mark.parametrize(
    ("task", "prediction", "references", "wanted"),
    [
        ("passkey", "It is 71432. Or 5.", ["71432"], 1),
        ("passkey", "none", ["71432"], 0),
        ("number_string", "0012", ["12"], 0),
        ("kv_retrieval", 'value: "c7d2-41".', ["c7d2-41"], 1),
        ("code_run", "The return value is: -3.", ["-3"], 1),
        ("code_run", "", ["-3"], 0),
        ("code_debug", "B. size", ["size", "B"], 1),
        ("code_debug", "the answer is: size", ["size", "B"], 1),
        ("code_debug", "A", ["B"], 0),
        ("code_debug", "the answer is:", ["size", "B"], 0),
        ("math_find", "88 of them", ["88"], 1),
        ("math_find", "3.50", ["3.5"], 1),
        ("math_calc", "[2, 7, 5, 13]", ["2", "7", "6", "13"], 0.5),
        ("longbook_choice_eng", "It must be C", ["C"], 1),
        ("longbook_choice_eng", "", ["C"], 0),
        ("longbook_choice_eng", "Both", ["B"], 1),
        ("longbook_choice_eng", "the answer is Cat", ["C"], 1),
        ("longbook_qa_eng", "The mayor", ["mayor", "he"], 1),
        ("longbook_qa_chn", "镇长！", ["镇长"], 1),
        ("longbook_sum_eng", "the red fox", ["the red fox"], 1),
        ("longdialogue_qa_eng", "I think piet.", ["PIET"], 1),
    ],
)
def test_infinite_bench_by_hand(task: str, prediction: str, references: list[str], wanted: float) -> None:
    assert infinite_bench.score(task, prediction, references) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("prediction", "exact", "partial"),
    [
        ('{"<mask-0>": "Lena Fisk", "<mask-1>": "Sarn"}', 0.5, 0.5),
        ("{'<mask-0>': 'Lena', '<mask-1>': 'Morrow'}", 0.5, 1.0),
        ("__import__('pathlib').Path('/tmp/never').touch()", 0.0, 0.0),
        ("I do not know", 0.0, 0.0),
        ("[1, 2]", 0.0, 0.0),
        ('{"<mask-0>": 3}', 0.0, 0.0),
    ],
)
def test_loogle_clozes_by_hand(prediction: str, exact: float, partial: float) -> None:
    found = loogle.cloze(prediction, '{"<mask-0>": "Lena Fisk", "<mask-1>": "Morrow"}')
    assert (found["exact_match"], found["partial_match"]) == (exact, partial)


def test_loogle_texts_by_hand() -> None:
    found = loogle.free_text("the red fox", "the red fox jumps")
    assert found["bleu1"] == pytest.approx(2.718281828 ** (1 - 4 / 3))
    assert found["bleu4"] == 0 and found["rouge1"] == 0.75 and found["rougeL"] == 0.75
    assert found["rouge2"] == pytest.approx(2 / 3)


def test_ruler_by_hand_and_as_lm_eval_has_it() -> None:
    assert ruler.score("qa_1", "It was ANN\x07 Lee", ["ann", "Bob"]) == 1
    assert ruler.score("niah_multivalue", "12 and 13", ["12", "13", "14", "15"]) == 0.5
    pytest.importorskip("transformers", reason="lm-eval's file imports it")
    module = lm_eval_module("ruler", "common_utils.py")
    for prediction, reference in random_texts(100):
        references = reference.split()
        wanted = module.string_match_all(module.postprocess_pred([prediction]), [references])
        assert ruler.score("vt", prediction, references) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("prediction", "wanted"),
    [
        (r"so \boxed{033}.", 33),
        (r"\boxed{12} and then \boxed{\text{ 7 }}", 7),
        (r"\boxed{1{,}024}", 1024),
        (r"\boxed{x = 45}", 45),
        (r"\boxed{5} and \boxed{6", 5),
        ("so 3 times 4 is 12", 12),
        ("The answer is 204. I checked 3 cases.", 204),
        ("that makes 1,024", 1024),
        ("nothing", None),
        ("", None),
    ],
)
def test_aime_by_hand(prediction: str, wanted: int | None) -> None:
    assert aime.extract(prediction) == wanted
    assert (
        aime.right(prediction, ["0" + str(wanted)]) == 1
        if wanted is not None
        else aime.right(prediction, ["1"]) == 0
    )


@pytest.mark.parametrize(
    ("task", "prediction", "reference", "wanted"),
    [
        ("qasper", "Léna Fisk", "lena fisk", 1.0),
        ("quality", "(B) the pier", "(B) The pier", 1.0),
        ("quality", "none", "(B) The pier", 0.0),
        ("space_digest", "about 60%", "50%", 0.5),
        ("space_digest", "half", "50%", 0.0),
        ("book_sum_sort", "1, 2, 3", "2, 1, 3", 2 / 3),
        ("book_sum_sort", "1, 2", "2, 1, 3", 0.0),
        ("gov_report", "the foxes jumped", "the fox jumps", 1.0),
    ],
)
def test_zero_scrolls_by_hand(task: str, prediction: str, reference: str, wanted: float) -> None:
    assert zero_scrolls.score(task, prediction, [reference]) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("said", "letter"),
    [
        ("The correct answer is (B)", "B"),
        ("**The correct answer is C**", "C"),
        ("The correct answer is E", None),
        ("B", None),
    ],
)
def test_longbench_v2_letters(said: str, letter: str | None) -> None:
    assert longbench.chosen_letter(said) == letter
