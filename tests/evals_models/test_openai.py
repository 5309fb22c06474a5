"""The OpenAI-compatible adapter against a server on this machine."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from paceline.errors import PacelineError
from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor
from paceline.evals.adapters import openai
from paceline.evals.adapters.openai import OpenAIAdapter
from paceline.evals.attention_config import StreamingConfig, as_attention
from paceline.evals.interfaces import (
    Device,
    GenerationSpec,
    ModelSpec,
    Prediction,
    Sample,
    TransientFault,
    group_by_context,
)

SAMPLES = [
    Sample(
        id="a", context="The mill is old. ", question="How old?", answer_prefix="Answer:", max_new_tokens=5
    ),
    Sample(id="b", context="The mill is old. ", question="Where?", max_new_tokens=7),
    Sample(id="c", context="Another. ", question="Who?"),
]


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked, in capitals."""

    asked: ClassVar[list[dict[str, Any]]] = []
    status: ClassVar[int] = 200
    body: ClassVar[bytes | None] = None

    def log_message(self, format: str, *args: Any) -> None:
        """Not a word."""

    def do_GET(self) -> None:
        self._send(self.status, {"data": [{"id": "m"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        said = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        choice = {"text": said.upper()} if "prompt" in body else {"message": {"content": said.upper()}}
        self._send(self.status, {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 3}})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        data = self.body if self.body is not None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server() -> Iterator[tuple[str, type[Echo]]]:
    class Handler(Echo):
        asked: ClassVar[list[dict[str, Any]]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}/v1", Handler
        made.shutdown()
        thread.join()


def ask(
    url: str, samples: list[Sample], seed: int = 0, model: dict[str, Any] | None = None, **generation: Any
) -> dict[str, Prediction]:
    spec = ModelSpec(name="m", model_kwargs={"base_url": url, "timeout_s": 20, **(model or {})})
    wanted = GenerationSpec(generation_kwargs=generation, seed=seed)
    OpenAIAdapter.check(spec, wanted)
    adapter = OpenAIAdapter(spec, Device(name="cpu", id="cpu:0"))
    adapter.load()
    adapter.set_attention(None)
    found = {
        prediction.sample_id: prediction for prediction in adapter.generate(group_by_context(samples), wanted)
    }
    adapter.close()
    return found


def test_it_asks_for_chat_and_for_completions(
    server: tuple[str, type[Echo]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, handler = server
    monkeypatch.setenv("MILL_KEY", "secret")
    found = ask(url, SAMPLES, model={"api_key_env": "MILL_KEY", "extra_body": {"user": "x"}})
    assert found["a"].text == "THE MILL IS OLD. HOW OLD?\nANSWER:"
    assert found["b"].input_tokens == 9 and found["b"].output_tokens == 3 and found["b"].density is None
    by_budget = {request["max_tokens"]: request for request in handler.asked}
    assert set(by_budget) == {5, 7, 256}
    assert by_budget[5]["path"] == "/v1/chat/completions" and by_budget[5]["key"] == "Bearer secret"
    assert by_budget[5]["temperature"] == 0 and by_budget[5]["user"] == "x" and "top_k" not in by_budget[5]
    plain = ask(
        url, SAMPLES[:1], chat_template=False, do_sample=True, temperature=0.7, top_k=3, max_new_tokens=2
    )
    assert plain["a"].text == "THE MILL IS OLD. HOW OLD?ANSWER:"
    last = handler.asked[-1]
    assert (last["path"], last["temperature"], last["top_k"], last["max_tokens"]) == (
        "/v1/completions",
        0.7,
        3,
        2,
    )


def test_seeds_are_a_samples_own_and_stops_cut(server: tuple[str, type[Echo]]) -> None:
    url, handler = server
    ask(url, SAMPLES, seed=4)
    first = {request["max_tokens"]: request["seed"] for request in handler.asked}
    handler.asked.clear()
    ask(url, SAMPLES[1:], seed=4)
    assert all(first[request["max_tokens"]] == request["seed"] for request in handler.asked)
    assert len(set(first.values())) == 3
    assert ask(url, SAMPLES[:1], stop="HOW")["a"].text == "THE MILL IS OLD. "


@pytest.mark.parametrize(
    ("status", "fault"), [(429, TransientFault), (503, TransientFault), (404, PacelineError)]
)
def test_statuses_are_told_apart(
    server: tuple[str, type[Echo]], status: int, fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "_FIRST_PAUSE_S", 0.01)
    url, handler = server
    handler.status = status
    with pytest.raises(fault, match=str(status)):
        ask(url, SAMPLES)


def test_answers_that_are_none(server: tuple[str, type[Echo]]) -> None:
    url, handler = server
    for body, message in ((b"<html>", "else than JSON"), (b'{"choices": []}', "no choice")):
        handler.body = body
        with pytest.raises(PacelineError, match=message):
            ask(url, SAMPLES)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_key_is_never_sent_to_another_address(
    server: tuple[str, type[Echo]], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    url, handler = server
    reached: list[str | None] = []

    class Redirecting(handler):  # type: ignore[valid-type, misc]
        def do_GET(self) -> None:  # noqa: N802 - the name that the server calls
            if self.path.startswith("/elsewhere"):
                reached.append(self.headers.get("Authorization"))
                self._send(200, {})
                return
            self.send_response(status)
            self.send_header("Location", url.replace("127.0.0.1", "localhost").replace("/v1", "/elsewhere"))
            self.send_header("Content-Length", "0")
            self.end_headers()

    monkeypatch.setattr(handler, "do_GET", Redirecting.do_GET)
    monkeypatch.setenv("MILL_KEY", "k3y-of-the-mill")
    with pytest.raises(PacelineError, match=str(status)):
        ask(url, SAMPLES, model={"api_key_env": "MILL_KEY"})
    assert reached == []


def test_an_answer_without_end_is_not_read(
    server: tuple[str, type[Echo]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, handler = server
    monkeypatch.setattr("paceline.evals.adapters.openai._LARGEST_ANSWER", 1 << 20)
    handler.body = b'{"data": "' + b"x" * (1 << 20) + b'"}'
    with pytest.raises(PacelineError, match="more than 1 MiB"):
        ask(url, SAMPLES)


def test_a_server_that_is_not_there_may_come_back() -> None:
    with pytest.raises(TransientFault):
        ask("http://127.0.0.1:9/v1", SAMPLES)


def test_what_it_cannot_do_it_refuses() -> None:
    adapter = OpenAIAdapter(ModelSpec(name="m"), Device(name="cpu", id="cpu:0"))
    with pytest.raises(PacelineError, match="its own attention"):
        adapter.set_attention(as_attention(StreamingConfig()))
    url = {"base_url": "http://localhost/v1"}
    sparse = GenerationSpec(attention=as_attention(StreamingConfig()))
    silly = GenerationSpec(generation_kwargs={"chat_template": False, "chat_template_kwargs": {"a": 1}})
    for generation, message in ((sparse, "its own attention"), (silly, "chat_template_kwargs say nothing")):
        with pytest.raises(PacelineError, match=message):
            OpenAIAdapter.check(ModelSpec(name="m", model_kwargs=url), generation)
    for model, request in (
        ({}, {}),
        ({**url, "temp": 1}, {}),
        ({"base_url": "file:///etc"}, {}),
        ({**url, "extra_body": {"max_tokens": 9}}, {}),
        ({**url, "extra_body": {"stream": True}}, {}),
        ({**url, "timeout_s": 0}, {}),
        (url, {"max_context_length": 4}),
    ):
        with pytest.raises(PacelineError):
            OpenAIAdapter.check(
                ModelSpec(name="m", model_kwargs=model), GenerationSpec(request_kwargs=request)
            )


def test_a_name_and_password_in_the_address_are_basic_authentication(server: tuple[str, type[Echo]]) -> None:
    url, handler = server
    ask(url.replace("//", "//me:pw@"), SAMPLES[:1])
    assert handler.asked[0]["key"] == f"Basic {base64.b64encode(b'me:pw').decode()}"


def test_an_execution_asks_with_the_password_and_keeps_it_nowhere(
    server: tuple[str, type[Echo]], tmp_path: Path
) -> None:
    url, handler = server
    results = BenchmarkExecutor(["cpu"], 1, tmp_path).run_benchmark_matrix(
        model_names=["m"],
        sparse_attention_configs=[("dense", None)],
        benchmark_configs=[BenchmarkConfig("mock_benchmark")],
        adapter_config=AdapterConfig(
            "openai", model_kwargs={"base_url": url.replace("//", "//me:pass-word@")}
        ),
        generation_kwargs={"max_new_tokens": 4},
    )
    assert results.ok
    assert {asked["key"] for asked in handler.asked} == {
        f"Basic {base64.b64encode(b'me:pass-word').decode()}"
    }
    written = [path for path in tmp_path.rglob("*") if path.is_file() and b"pass-word" in path.read_bytes()]
    assert written == []
