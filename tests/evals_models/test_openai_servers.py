"""The OpenAI-compatible adapter against a server that behaves as vLLM's does: busy, thinking, counting, cutting off."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import PacelineError
from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor, StreamingConfig
from paceline.evals.adapters import openai
from paceline.evals.adapters.openai import OpenAIAdapter
from paceline.evals.interfaces import Device, GenerationSpec, ModelSpec, Prediction, Sample, group_by_context
from paceline.evals.stub_files import ATTEMPTS

THOUGHT = "They ask who; the text says it."


class Served:
    """What a server is set to do, and what it has seen."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = self.most = 0
        self.gathered = threading.Event()
        self.gather = 0
        self.busy_for = 0
        self.retry_after: str | None = None
        self.form = "apart"
        self.longest_context = 10_000
        self.paths: list[str] = []

    def enter(self) -> bool:
        """Whether a request is taken; all wait until as many are there as shall be."""
        with self.lock:
            if self.busy_for:
                self.busy_for -= 1
                return False
            self.running += 1
            self.most = max(self.most, self.running)
            if self.running >= self.gather:
                self.gathered.set()
        self.gathered.wait(10)
        return True

    def leave(self) -> None:
        with self.lock:
            self.running -= 1

    def choice(self, body: dict[str, Any]) -> dict[str, Any]:
        said = (body.get("prompt") or body["messages"][-1]["content"]).split()
        words, reason = said[: body["max_tokens"]], "stop" if len(said) <= body["max_tokens"] else "length"
        text = " ".join(words)
        if "prompt" in body:
            return {"text": text, "finish_reason": reason}
        message = {
            "apart": {"content": text, "reasoning_content": THOUGHT},
            "renamed": {"content": text, "reasoning": THOUGHT},
            "marks": {"content": f"<think>\n{THOUGHT}\n</think>\n\n{text}"},
            "half": {"content": f"{THOUGHT}</think>{text}"},
            "cut": {"content": f"<think>\n{THOUGHT}"},
            "only": {"content": None, "reasoning_content": THOUGHT},
            "plain": {"content": text},
        }[self.form]
        return {"message": {"role": "assistant", **message}, "finish_reason": reason}


def make_handler(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Not a word."""

        def do_GET(self) -> None:
            self.answer(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.paths.append(self.path)
            if not served.enter():
                return self.answer(429, {"error": {"message": "too many requests"}})
            try:
                count = len(str(body.get("prompt") or body.get("messages")).split())
                if count > served.longest_context:
                    return self.answer(400, {"error": {"message": "maximum context length is 5 tokens"}})
                usage = {
                    "prompt_tokens": count,
                    "completion_tokens": 9,
                    "completion_tokens_details": {"reasoning_tokens": 6},
                }
                return self.answer(200, {"choices": [served.choice(body)], "usage": usage})
            finally:
                served.leave()

        def answer(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            if served.retry_after is not None and status == 429:
                self.send_header("Retry-After", served.retry_after)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Served]]:
    monkeypatch.setattr(openai, "_FIRST_PAUSE_S", 0.01)
    state = Served()
    with ThreadingHTTPServer(("127.0.0.1", 0), make_handler(state)) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}/v1", state
        state.gathered.set()
        made.shutdown()
        thread.join()


def ask(url: str, samples: list[Sample], batch_size: int = 1, **generation: Any) -> dict[str, Prediction]:
    spec = ModelSpec(name="m", model_kwargs={"base_url": url, "timeout_s": 20})
    wanted = GenerationSpec(generation_kwargs=generation, batch_size=batch_size)
    OpenAIAdapter.check(spec, wanted)
    adapter = OpenAIAdapter(spec, Device(name="cpu", id="cpu:0"))
    adapter.load()
    found = {one.sample_id: one for one in adapter.generate(group_by_context(samples), wanted)}
    adapter.close()
    return found


ONE = Sample(id="a", context="Ilse built the harbour. ", question="Who built it?", max_new_tokens=20)


@pytest.mark.parametrize(
    ("form", "text", "reasoning"),
    [
        ("apart", "Ilse built the harbour. Who built it?", THOUGHT),
        ("renamed", "Ilse built the harbour. Who built it?", THOUGHT),
        ("marks", "Ilse built the harbour. Who built it?", THOUGHT),
        ("half", "Ilse built the harbour. Who built it?", THOUGHT),
        ("cut", "", THOUGHT),
        ("only", "", THOUGHT),
        ("plain", "Ilse built the harbour. Who built it?", None),
    ],
)
def test_reasoning_is_no_part_of_the_answer(
    served: tuple[str, Served], form: str, text: str, reasoning: str | None
) -> None:
    url, state = served
    state.form = form
    found = ask(url, [ONE])["a"]
    assert (found.text, found.extra.get("reasoning")) == (text, reasoning)
    assert (found.output_tokens, found.extra["reasoning_tokens"]) == (9, 6)


def test_an_answer_that_was_cut_off_says_so(served: tuple[str, Served]) -> None:
    url, _ = served
    assert ask(url, [ONE])["a"].extra["finish_reason"] == "stop"
    short = ask(url, [ONE], max_new_tokens=3)["a"]
    assert (short.extra["finish_reason"], short.text) == ("length", "Ilse built the")


def test_samples_without_a_template_are_completions(served: tuple[str, Served]) -> None:
    url, state = served
    plain = Sample(id="b", context="def f(", question="", plain=True, max_new_tokens=4)
    found = ask(url, [ONE, plain])
    assert sorted(state.paths) == ["/v1/chat/completions", "/v1/completions"]
    assert "reasoning" not in found["b"].extra
    state.paths.clear()
    ask(url, [ONE, plain], chat_template=True)
    assert set(state.paths) == {"/v1/chat/completions"}


def test_a_busy_server_is_asked_again_and_not_for_ever(
    served: tuple[str, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, state = served
    pauses: list[float] = []
    monkeypatch.setattr(openai.time, "sleep", pauses.append)
    state.busy_for = 3
    assert ask(url, [ONE])["a"].text and len(state.paths) == 4
    assert pauses == sorted(pauses) and 0.005 <= pauses[0] <= 0.01 and 0.02 <= pauses[2] <= 0.04
    pauses.clear()
    state.busy_for, state.retry_after = 1, "7"
    assert ask(url, [ONE])["a"].text and pauses == [7.0]
    state.busy_for, state.retry_after = 99, None
    state.paths.clear()
    with pytest.raises(openai.TransientFault, match="429"):
        ask(url, [ONE])
    assert len(state.paths) == 5


def test_a_request_that_is_wrong_is_not_asked_again(served: tuple[str, Served]) -> None:
    url, state = served
    state.longest_context = 5
    with pytest.raises(PacelineError, match="maximum context length"):
        ask(url, [ONE])
    assert len(state.paths) == 1


def test_an_execution_keeps_to_its_limit_and_its_books(served: tuple[str, Served], tmp_path: Path) -> None:
    """Three at once, of five questions to three documents; one refusal costs no attempt."""
    url, state = served
    state.gather, state.busy_for, state.retry_after = 3, 1, "0"
    executor = BenchmarkExecutor(["cpu"], 1, tmp_path)
    adapter = AdapterConfig("openai", model_kwargs={"base_url": url}, batch_size=3)
    asked: dict[str, Any] = {
        "model_names": ["m"],
        "benchmark_configs": [BenchmarkConfig("mock_benchmark", params={"repeat": 2})],
        "adapter_config": adapter,
        "generation_kwargs": {"max_new_tokens": 8},
    }
    results = executor.run_benchmark_matrix(sparse_attention_configs=[("dense", None)], **asked)
    assert results.ok and state.most == 3
    (result,) = results.individual_results
    assert result.metrics["finish_reasons"] == {"length": 10} and result.density is None
    assert result.facts["output_tokens"] == 90 and not list(tmp_path.rglob(ATTEMPTS))
    with pytest.raises(PacelineError, match="its own attention"):
        executor.run_benchmark_matrix(sparse_attention_configs=[("s", StreamingConfig())], **asked)
