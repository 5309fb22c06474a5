"""Models behind a server that speaks OpenAI's protocol: vLLM, llama.cpp, SGLang and the like."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from random import Random
from typing import Any, ClassVar

from paceline.errors import PacelineError
from paceline.evals.adapters.decoding import Decoding, cut_at, read_decoding
from paceline.evals.attention_config import SparseAttentionConfig
from paceline.evals.interfaces import (
    ContextGroup,
    Device,
    GenerationSpec,
    ModelSpec,
    Prediction,
    Sample,
    TransientFault,
    sample_seed,
)
from paceline.urls import split_login

_ARGUMENTS = frozenset({"base_url", "api_key_env", "timeout_s", "extra_body"})
_OURS = frozenset(
    {"model", "messages", "prompt", "max_tokens", "temperature", "top_p", "seed", "stop", "stream", "n"}
)
"""What a request has from the suite already, so that `extra_body` may not say otherwise."""
_DEFAULT_TIMEOUT_S = 600.0
_TRIES = 5
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_BEGIN, _END = "<think>", "</think>"
_LARGEST_ANSWER = 64 << 20
_TOO_MANY = 429
_SERVER_FAULT = 500
_PASSED_ON = ("top_k", "min_p", "repetition_penalty")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key is for one address only: a server that sends elsewhere has answered with an error."""

    def redirect_request(self, *_: Any) -> None:
        return None


class OpenAIAdapter:
    """Asks `base_url` + `/chat/completions`, or `/completions` with `chat_template: false`.

    `model_kwargs`: `base_url` (such as http://localhost:8000/v1), `api_key_env` (the name of the environment variable
    with the key), `timeout_s`, `extra_body` (what the server takes besides). At most `batch_size` questions are on
    their way at once. What a server that is busy refuses is asked again, five times in all, after pauses that double
    or that the server names. Reasoning is kept apart from the answer, as servers do it or by `<think>` marks. Servers
    have their own attention, so that a sparse one is refused.
    """

    version: ClassVar[str] = "3"
    uses_gpu: ClassVar[bool] = False
    takes_all: ClassVar[bool] = True

    def __init__(self, model: ModelSpec, device: Device) -> None:
        self._spec = model
        self._url, self._login = split_login(str(model.model_kwargs.get("base_url", "")).rstrip("/"))
        self._headers = self._login

    @classmethod
    def check(cls, model: ModelSpec, generation: GenerationSpec) -> None:
        decoding = read_decoding(generation.generation_kwargs)
        unknown = sorted(set(model.model_kwargs) - _ARGUMENTS)
        if unknown:
            known = ", ".join(sorted(_ARGUMENTS))
            raise PacelineError(f"the openai adapter has no model_kwargs {unknown[0]!r}; it takes: {known}")
        url = str(model.model_kwargs.get("base_url", ""))
        if not url.startswith(("http://", "https://")):
            raise PacelineError(
                "the openai adapter needs model_kwargs.base_url, such as http://localhost:8000/v1"
            )
        if generation.attention is not None:
            raise PacelineError("a server has its own attention: the openai adapter runs 'dense' only")
        taken = sorted(_OURS & set(model.model_kwargs.get("extra_body") or {}))
        if taken:
            raise PacelineError(
                f"model_kwargs.extra_body has {taken[0]!r}, which every request has already: see generation_kwargs"
            )
        timeout_s = model.model_kwargs.get("timeout_s", _DEFAULT_TIMEOUT_S)
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
            raise PacelineError(f"model_kwargs.timeout_s is a number of seconds over 0, not {timeout_s!r}")
        if decoding.chat_template is False and decoding.chat_template_kwargs:
            raise PacelineError(
                "generation_kwargs.chat_template_kwargs say nothing with chat_template: false"
            )
        if generation.request_kwargs.get("max_context_length") is not None:
            raise PacelineError("the openai adapter cannot count tokens: leave out max_context_length")
        if model.tokenizer_kwargs:
            raise PacelineError("the openai adapter has no tokenizer: leave out tokenizer_kwargs")

    @classmethod
    def estimate_memory_bytes(cls, model: ModelSpec, generation: GenerationSpec) -> int | None:
        return None

    def load(self) -> None:
        """Look whether the server answers."""
        name = self._spec.model_kwargs.get("api_key_env")
        key = os.environ.get(str(name)) if name else None
        if name and key is None:
            raise PacelineError(f"the environment has no {name}, which model_kwargs.api_key_env names")
        self._headers = {"Authorization": f"Bearer {key}"} if key else self._login
        self._call("GET", "/models", None)

    def set_attention(self, attention: SparseAttentionConfig | None) -> None:
        if attention is not None:
            raise PacelineError("a server has its own attention: the openai adapter runs 'dense' only")

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        decoding = read_decoding(generation.generation_kwargs)
        samples = [sample for group in groups for sample in group.samples]
        with ThreadPoolExecutor(max_workers=generation.batch_size) as pool:
            asked = [pool.submit(self._ask, sample, decoding, generation.seed) for sample in samples]
            try:
                for answer in as_completed(asked):
                    yield answer.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _ask(self, sample: Sample, decoding: Decoding, seed: int) -> Prediction:
        if sample.continuations:
            raise PacelineError("the openai adapter cannot weigh given answers: use the huggingface one")
        path, body = self._request(sample, decoding, seed)
        answer, seconds = self._call_patiently(path, body, Random(seed))  # noqa: S311 - spreads pauses, guards nothing
        try:
            choice, usage = answer["choices"][0], answer.get("usage") or {}
            text, reasoning = _said(choice)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise PacelineError(f"{self._url}{path} answered with no choice: {str(answer)[:200]}") from error
        cut = cut_at(text, decoding.stop)
        details = usage.get("completion_tokens_details") or {}
        told = {
            "finish_reason": choice.get("finish_reason"),
            "reasoning": reasoning or None,
            "reasoning_tokens": _count(details, "reasoning_tokens"),
        }
        return Prediction(
            sample_id=sample.id,
            text=text if cut is None else cut,
            input_tokens=_count(usage, "prompt_tokens"),
            output_tokens=_count(usage, "completion_tokens"),
            seconds=seconds,
            extra={name: value for name, value in told.items() if value is not None},
        )

    def _call_patiently(self, path: str, body: Mapping[str, Any], random: Random) -> tuple[Any, float]:
        """The answer, and the seconds that the request took which got it; a busy server is asked again."""
        for left in range(_TRIES - 1, -1, -1):
            started = time.perf_counter()
            try:
                answer = self._call("POST", path, body)
            except TransientFault as fault:
                if not left:
                    raise
                full = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (_TRIES - 1 - left))
                time.sleep(max(_named_pause_s(fault), full * (0.5 + random.random() / 2)))
            else:
                return answer, time.perf_counter() - started
        raise AssertionError("the last try returns or raises")

    def _request(self, sample: Sample, decoding: Decoding, seed: int) -> tuple[str, dict[str, Any]]:
        prompt = f"{sample.context}{sample.question}"
        body: dict[str, Any] = {
            "model": self._spec.name,
            "max_tokens": decoding.budget(sample.max_new_tokens),
            "temperature": decoding.temperature if decoding.do_sample else 0.0,
            "top_p": decoding.top_p,
            "seed": sample_seed(seed, sample.id) & 0x7FFFFFFF,
        }
        body |= {"stop": list(decoding.stop)} if decoding.stop else {}
        defaults = Decoding()
        for name in _PASSED_ON:
            if getattr(decoding, name) != getattr(defaults, name):
                body[name] = getattr(decoding, name)
        body |= dict(self._spec.model_kwargs.get("extra_body") or {})
        is_chat = not sample.plain if decoding.chat_template is None else decoding.chat_template
        if not is_chat:
            return "/completions", {**body, "prompt": prompt + sample.answer_prefix}
        if decoding.chat_template_kwargs:
            body["chat_template_kwargs"] = dict(decoding.chat_template_kwargs)
        # A server's template ends the user's turn, so that the prefix of the answer stands at its end.
        content = f"{prompt}\n{sample.answer_prefix}" if sample.answer_prefix else prompt
        return "/chat/completions", {**body, "messages": [{"role": "user", "content": content}]}

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self._headers}
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)  # noqa: S310 - checked
        timeout_s = float(self._spec.model_kwargs.get("timeout_s", _DEFAULT_TIMEOUT_S))
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout_s) as response:
                answer = response.read(_LARGEST_ANSWER + 1)
            if len(answer) > _LARGEST_ANSWER:
                raise PacelineError(f"{self._url}{path} answered with more than {_LARGEST_ANSWER >> 20} MiB")
            return json.loads(answer)
        except urllib.error.HTTPError as error:
            raise _refusal(f"{self._url}{path}", error) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            raise TransientFault(f"{self._url}{path}: {error}") from error
        except ValueError as error:
            raise PacelineError(f"{self._url}{path} answered with something else than JSON") from error

    def peak_memory_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        self._headers = {}


def _said(choice: Mapping[str, Any]) -> tuple[str, str]:
    """The answer, and the reasoning before it: servers hand it over apart, or leave it in the text between marks."""
    if "message" not in choice:
        return choice["text"] or "", ""
    message = choice["message"]
    text = message["content"] or ""
    apart = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(apart, str):
        return text, apart
    before, end, after = text.rpartition(_END)
    if end:
        return after.lstrip(), before.lstrip().removeprefix(_BEGIN).strip()
    # Cut off in its thoughts: there is no answer.
    return ("", text.lstrip()[len(_BEGIN) :].strip()) if text.lstrip().startswith(_BEGIN) else (text, "")


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    found = usage.get(name)
    return found if isinstance(found, int) else None


def _named_pause_s(fault: TransientFault) -> float:
    """How long the server wants to be left alone, as far as that is bearable."""
    headers = getattr(fault.__cause__, "headers", None)
    said = str(headers.get("Retry-After") if headers is not None else "")
    return min(float(said), _LONGEST_PAUSE_S) if said.isdecimal() else 0.0


def _refusal(url: str, error: urllib.error.HTTPError) -> Exception:
    """What a status means: a server that is busy or broken may be better later, a request that is wrong stays so."""
    text = error.read(300).decode("utf-8", "replace").strip()
    said = f"{url} answered {error.code}: {text}"
    return (
        TransientFault(said)
        if error.code == _TOO_MANY or error.code >= _SERVER_FAULT
        else PacelineError(said)
    )
