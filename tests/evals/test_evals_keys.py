"""Keys, paths and files: other content is never taken for the same, and no name leads out of the results."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import PacelineError
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    HashAttentionConfig,
    Matrix,
    ModelConfig,
    code,
)
from paceline.evals.attention_config import (
    BUILT_IN,
    AttentionError,
    DenseConfig,
    LocalMaskerConfig,
    OracleTopKConfig,
    RandomSamplingConfig,
    SinkMaskerConfig,
    SparseAttentionConfig,
    as_attention,
    attention_from_content,
    masker_from_content,
    size_in_tokens,
)
from paceline.evals.code import take_file
from paceline.evals.configs import model_from_content
from paceline.evals.interfaces import Prediction, Sample, find, group_by_context, sample_seed
from paceline.evals.keys import Places, sanitize, stub_path, written
from paceline.evals.planning import make_stubs
from paceline.evals.stored import differences, why_again
from paceline.evals.stub_files import PREDICTIONS, PredictionLog

NAMES = st.text(min_size=1, max_size=40)


@given(name=NAMES)
def test_a_name_becomes_one_harmless_part_of_a_path(name: str) -> None:
    part = sanitize(name)
    assert part and "/" not in part and part not in (".", "..") and "-" not in part
    assert len(part.encode()) <= 120 and not part.startswith(".")


def test_names_are_written_as_the_drawn_tree_has_them() -> None:
    assert sanitize("meta-llama/Llama-3.1-8B-Instruct") == "meta_llama_Llama_3.1_8B_Instruct"
    assert sanitize("microsoft/Phi-4-mini-instruct") == "microsoft_Phi_4_mini_instruct"
    assert sanitize("../../evil") == "_.._evil" and sanitize("..") == "_"


@given(cells=st.lists(st.tuples(NAMES, NAMES, NAMES), unique=True, min_size=1, max_size=8))
def test_stubs_never_share_a_directory(cells: list[tuple[str, str, str]]) -> None:
    places = Places(Path("/nonexistent/results"))
    found = [places.find(stub_path(*cell), f"{abs(hash(cell)):064x}"[-64:][::-1]) for cell in sorted(cells)]
    assert len(set(found)) == len(cells)
    assert all(path.is_relative_to("/nonexistent/results") for path in found)


def matrix(**changes: Any) -> Matrix:
    base: dict[str, Any] = {
        "models": [ModelConfig("m", revision="r")],
        "attentions": [("x", SinkMaskerConfig(sink_size=4))],
        "benchmarks": [BenchmarkConfig("mock_benchmark")],
        "adapter": AdapterConfig("mock"),
        "generation_kwargs": {"max_new_tokens": 8},
    }
    return Matrix(**{**base, **changes})


def key(**changes: Any) -> str:
    (stub,) = make_stubs(matrix(**changes), Path("/nonexistent"))
    return stub.key


@pytest.mark.parametrize(
    "change",
    [
        {"models": [ModelConfig("m", revision="r2")]},
        {"models": [ModelConfig("m", revision="r", model_kwargs={"dtype": "float16"})]},
        {"models": [ModelConfig("m", revision="r", tokenizer_kwargs={"padding_side": "left"})]},
        {"attentions": [("x", SinkMaskerConfig(sink_size=5))]},
        {"attentions": [("x", LocalMaskerConfig(window_size=4))]},
        {"attentions": [("x", None)]},
        {"attentions": [("x", SparseAttentionConfig([SinkMaskerConfig(sink_size=4)], prefill="sparse"))]},
        {"attentions": [("x", SparseAttentionConfig([SinkMaskerConfig(sink_size=4)], dense_last_layers=1))]},
        {"attentions": [("y", SinkMaskerConfig(sink_size=4))]},
        {"benchmarks": [BenchmarkConfig("mock_benchmark", ["reading_comprehension"])]},
        {"benchmarks": [BenchmarkConfig("mock_benchmark", revision="2")]},
        {"benchmarks": [BenchmarkConfig("mock_benchmark", params={"repeat": 2})]},
        {"generation_kwargs": {"max_new_tokens": 9}},
        {"request_kwargs": {"max_requests": 1}},
        {"seed": 1},
    ],
)
def test_whatever_decides_a_result_is_in_its_key(change: dict[str, Any]) -> None:
    assert key() == key() != key(**change)


def test_local_data_and_local_models_count_by_their_content(tmp_path: Path) -> None:
    row = {"id": "1", "context": "c.", "question": "q", "answer": "a"}
    (tmp_path / "mock_benchmark.jsonl").write_text(json.dumps(row))

    def with_files() -> str:
        benchmark = BenchmarkConfig("mock_benchmark", data_dir=str(tmp_path))
        return key(benchmarks=[benchmark], models=[str(tmp_path)])

    first = with_files()
    assert with_files() == first
    (tmp_path / "mock_benchmark.jsonl").write_text(json.dumps({**row, "answer": "b"}))
    assert with_files() != first


def test_learned_weights_count_by_their_content(tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"1")
    config = HashAttentionConfig(weights=str(weights))
    first = key(attentions=[("x", config)])
    weights.write_bytes(b"2")
    assert key(attentions=[("x", config)]) != first
    weights.unlink()
    with pytest.raises(PacelineError, match="cannot read the weights"):
        key(attentions=[("x", config)])


def test_every_attention_survives_its_way_through_files() -> None:
    for kind, config in BUILT_IN.items():
        attention = as_attention(config())
        content = {"maskers": None} if attention is None else json.loads(json.dumps(attention.content()))
        assert attention_from_content(content) == attention
        assert (attention is None) == (kind == "dense")


@pytest.mark.parametrize("size", [0, -1, 0.0, 1.5, float("nan"), float("inf"), True, "4", None])
def test_sizes_that_are_none_are_refused(size: Any) -> None:
    with pytest.raises(AttentionError, match="sink_size"):
        SinkMaskerConfig(sink_size=size)


@given(share=st.floats(min_value=1e-9, max_value=1), keys=st.integers(1, 10**6))
def test_a_share_is_never_no_token(share: float, keys: int) -> None:
    assert 1 <= size_in_tokens(share, keys) <= keys


def test_attentions_that_cannot_be_are_refused() -> None:
    with pytest.raises(AttentionError, match="at most one masker that samples"):
        SparseAttentionConfig([RandomSamplingConfig(), RandomSamplingConfig(seed=1)])
    with pytest.raises(AttentionError, match="stands alone"):
        SparseAttentionConfig([DenseConfig(), OracleTopKConfig()])
    with pytest.raises(AttentionError, match="unknown masker 'sunk'"):
        attention_from_content({"maskers": [{"kind": "sunk"}]})
    with pytest.raises(AttentionError, match="unknown parameter 'size'"):
        attention_from_content({"maskers": [{"kind": "sink", "size": 4}]})
    with pytest.raises(AttentionError, match="no option 'prefil'"):
        attention_from_content({"maskers": [{"kind": "sink"}], "prefil": "dense"})
    with pytest.raises(AttentionError, match="'dense' or 'sparse'"):
        SparseAttentionConfig([OracleTopKConfig()], prefill="none")


def test_a_dtype_is_written_by_its_name() -> None:
    dtype = type("dtype", (), {"__module__": "torch", "__str__": lambda self: "torch.bfloat16"})()
    assert written({"torch_dtype": dtype}, "model_kwargs") == {"torch_dtype": "bfloat16"}


def test_secrets_are_not_written_down() -> None:
    with pytest.raises(PacelineError, match=r"model_kwargs.headers.api_key would be written down"):
        written({"headers": {"api_key": "abc"}, "eos_token_id": 3}, "model_kwargs")
    assert written({"pad_token": "</s>", "api_key_env": "MY_KEY"}, "x") == {
        "pad_token": "</s>",
        "api_key_env": "MY_KEY",
    }


def test_seeds_of_samples_depend_on_nothing_else() -> None:
    assert sample_seed(0, "a") == sample_seed(0, "a") != sample_seed(1, "a")
    assert 0 <= sample_seed(7, "ü") < 2**63


def sample(name: str, context: str = "c") -> Sample:
    return Sample(id=name, context=context, question="q?")


def test_questions_on_one_context_stand_together() -> None:
    groups = group_by_context([sample("1", "x"), sample("2", "y"), sample("3", "x")])
    assert [[item.id for item in group.samples] for group in groups] == [["1", "3"], ["2"]]


@given(cut=st.integers(0, 2000))
def test_predictions_cut_off_anywhere_are_known_up_to_there(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    directory = tmp_path_factory.mktemp("stub")
    samples = [sample(str(number)) for number in range(8)]
    log = PredictionLog(directory, samples)
    for item in samples:
        log.append(Prediction(sample_id=item.id, text=f"answer {item.id} é\n", density=0.5))
    log.close()
    data = (directory / PREDICTIONS).read_bytes()[:cut]
    (directory / PREDICTIONS).write_bytes(data)
    again = PredictionLog(directory, samples)
    assert list(again.known) == [str(number) for number in range(min(8, _whole(data)))]
    for item in samples:
        if item.id not in again.known:
            again.append(Prediction(sample_id=item.id, text="late"))
    again.close()
    assert len(PredictionLog(directory, samples).known) == 8


def _whole(data: bytes) -> int:
    """Lines that can be read, the last one without its line end included."""
    lines = data.split(b"\n")
    return sum(line.endswith(b"}") and line.count(b"{") == line.count(b"}") for line in lines)


def test_who_may_ask_a_server_is_neither_written_down_nor_part_of_the_key() -> None:
    def asking(url: str) -> dict[str, Any]:
        model = ModelConfig("m", revision="r", model_kwargs={"base_url": url})
        return {"models": [model], "adapter": AdapterConfig("openai"), "attentions": [("dense", None)]}

    (stub,) = make_stubs(matrix(**asking("http://me:pass-word@host:8000/v1")), Path("/nonexistent"))
    assert stub.content["model"]["model_kwargs"] == {"base_url": "http://host:8000/v1"}
    assert stub.key == key(**asking("http://host:8000/v1")) != key(**asking("http://other:8000/v1"))


MASKER = """
from dataclasses import dataclass
from paceline.evals import MaskerConfig
from helping import NUMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine(MaskerConfig):
    size: int = 3

    def make_masker(self):
        return NUMBER
"""
QUIZ = """
from paceline.evals.benchmarks.mock import MockBenchmark


class Quiz(MockBenchmark):
    def source(self, data_dir, revision):
        return "real"
"""


def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that has imported nothing of the user's yet."""
    monkeypatch.setattr(code, "_files", {})
    for name in [name for name in sys.modules if name.startswith("paceline_file_") or name == "helping"]:
        monkeypatch.delitem(sys.modules, name)
    find.cache_clear()


def test_edited_code_of_others_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    place = tmp_path / "suite"
    place.mkdir()
    (place / "mine.py").write_text(MASKER)
    (place / "helping.py").write_text("NUMBER = 1\n")
    (place / "quiz.py").write_text(QUIZ)

    def keys() -> tuple[str, str]:
        fresh(monkeypatch)
        masker = masker_from_content({"kind": take_file("./mine.py:Mine", place), "size": 4})
        benchmark = BenchmarkConfig(take_file("./quiz.py:Quiz", place))
        return key(attentions=[("x", masker)]), key(benchmarks=[benchmark])

    first = keys()
    assert keys() == first
    (place / "helping.py").write_text("NUMBER = 2\n")
    edited = keys()
    assert edited[0] != first[0] and edited[1] == first[1]
    (place / "quiz.py").write_text(f"{QUIZ}# better\n")
    assert keys()[1] != first[1]
    moved = place.rename(tmp_path / "elsewhere")
    place = moved
    (place / "helping.py").write_text("NUMBER = 1\n")
    (place / "quiz.py").write_text(QUIZ)
    assert keys() == first, "where the files lie decides nothing"
    with pytest.raises(PacelineError, match="there is no file"):
        take_file("./nowhere.py:Mine", place)


SAYS = """
import sys
from pathlib import Path
from paceline.evals.code import find_part, take_file
print(find_part("benchmarks", take_file("./told.py:TOLD", Path(sys.argv[1]))))
"""


def test_an_edit_of_the_same_size_within_a_second_is_run(tmp_path: Path) -> None:
    """Compiled forms are taken for current by size and second, so that they must not be used."""
    files = {
        "told.py": "from beside import A\nfrom parts.inner import B\nTOLD = (1, A, B)\n",
        "beside.py": "A = 1\n",
        "parts/__init__.py": "",
        "parts/inner.py": "B = 1\n",
    }
    (tmp_path / "parts").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def told(number: str) -> str:
        for name, text in files.items():
            (tmp_path / name).write_text(text.replace("1", number))
            os.utime(tmp_path / name, (1_700_000_000, 1_700_000_000))
        command = [sys.executable, "-c", SAYS, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    assert told("1") == "(1, 1, 1)\n"
    assert told("2") == "(2, 2, 2)\n"


def test_what_lies_beside_data_and_weights_decides_nothing(tmp_path: Path) -> None:
    model, data = tmp_path / "model", tmp_path / "data"
    for place in (model, data):
        place.mkdir()
    (model / "config.json").write_text("{}")
    row = {"context": "c", "question": "q", "answers": ["a"], "answer_prefix": ""}
    for subset in ("qasper", "trec"):
        (data / f"{subset}.jsonl").write_text(json.dumps(row))

    def keys() -> list[str]:
        benchmark = BenchmarkConfig("longbench", ["qasper", "trec"], data_dir=str(data))
        stubs = make_stubs(matrix(models=[str(model)], benchmarks=[benchmark]), Path("/nonexistent"))
        return [stub.key for stub in stubs]

    first = keys()
    (model / "README.md").write_text("new")
    (data / "notes.txt").write_text("new")
    (data / "lcc.jsonl").write_text("new")
    assert keys() == first
    (data / "trec.jsonl").write_text(json.dumps({**row, "context": "d"}))
    assert keys()[0] == first[0] and keys()[1] != first[1], "of two subsets the one whose file has changed"
    (model / "config.json").write_text('{"a": 1}')
    assert not set(keys()) & set(first)


def test_tasks_and_versions_of_lm_eval_are_in_the_key(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval", reason="its tasks are listed by its package")
    (tmp_path / "mine.yaml").write_text("task: mine\ndataset_path: json\n")

    def content() -> dict[str, Any]:
        benchmark = BenchmarkConfig("lm_eval", params={"tasks": ["mine"], "include_path": str(tmp_path)})
        (stub,) = make_stubs(matrix(benchmarks=[benchmark]), Path("/nonexistent"))
        return dict(stub.content["benchmark"])

    first = content()
    assert first["packages"]["lm_eval"]
    (tmp_path / "README.md").write_text("new")
    assert content() == first
    (tmp_path / "mine.yaml").write_text("task: mine\ndataset_path: csv\n")
    assert content() != first


def test_a_branch_on_the_hub_counts_as_the_commit_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def commits(**more: Any) -> tuple[str | None, str | None]:
        benchmark = BenchmarkConfig("longbench", ["qasper"], revision="main")
        asked = matrix(
            models=[ModelConfig("org/model", **more)],
            benchmarks=[benchmark],
            adapter=AdapterConfig("huggingface"),
        )
        (stub,) = make_stubs(asked, Path("/nonexistent"))
        return stub.content["model"].get("commit"), stub.content["benchmark"]["data"].get("commit")

    assert commits() == (None, None)
    for name, commit in (("models--org--model", "a" * 40), ("datasets--Xnhyacinth--LongBench", "b" * 40)):
        (tmp_path / name / "refs").mkdir(parents=True)
        (tmp_path / name / "refs" / "main").write_text(commit)
        (tmp_path / name / "snapshots" / commit).mkdir(parents=True)
    assert commits() == commits(revision="main") == ("a" * 40, "b" * 40)
    assert commits(revision="c" * 40)[0] == "c" * 40
    (stub,) = make_stubs(
        matrix(models=["org/model"], adapter=AdapterConfig("huggingface")), Path("/nonexistent")
    )
    assert model_from_content(stub.content).revision == "a" * 40, "what is loaded is what the key is of"


def test_a_result_that_does_not_count_any_more_says_why(tmp_path: Path) -> None:
    def run(window: int) -> tuple[list[str], list[str]]:
        asked = matrix(
            attentions=[("x", LocalMaskerConfig(window_size=window))],
            benchmarks=[BenchmarkConfig("longbench", ["qasper"])],
        )
        executor = BenchmarkExecutor(["cpu"], 1, tmp_path)
        reasons = [why_again(stub) for stub in executor.plan(asked)]
        return reasons, [result.state for result in executor.run(asked).individual_results]

    assert run(4) == ([""], ["completed"])
    assert run(4) == ([""], ["skipped"])
    (reason,), states = run(5)
    assert reason == "attention.maskers[0].window_size was 4, is 5" and states == ["completed"]
    old = json.loads((tmp_path / "m/x/toy_longbench_qasper/spec.json").read_text())
    old["content"]["adapter"]["version"] = "1"
    assert list(
        differences(old["content"], {**old["content"], "adapter": {"name": "mock", "version": "2"}})
    ) == ["adapter.version was 1, is 2"]
