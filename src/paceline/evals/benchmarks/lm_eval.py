"""Any task of lm-eval: its data, prompts, filters and metrics come from that package, the answers from an adapter."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from paceline.errors import MissingExtra
from paceline.evals.benchmarks.rows import DataError
from paceline.evals.interfaces import Prediction, Sample, Scores, ScoreValue, Source

SHIPPED = "paceline_sample"
_KINDS = frozenset({"generate_until", "loglikelihood"})
_TASK_FILES = frozenset({".yaml", ".yml", ".py", ".json", ".jsonl", ".csv", ".parquet"})


class LmEval:
    """`tasks` names tasks or groups of lm-eval; each task is a subset. Without any, a sample of our own runs.

    Biderman et al., Lessons from the Trenches on Reproducible Evaluation of Language Models, arXiv:2405.14782.
    `include_path` is a directory with tasks of yours, `num_fewshot` how many solved examples a prompt has, if other
    than the task says. Tasks that write answers run with every adapter; those that weigh given answers need one that
    can tell log-likelihoods (huggingface). What a task says about sampling is left to `generation_kwargs`.
    """

    name: ClassVar[str] = "lm_eval"
    version: ClassVar[str] = "1"

    def source(self, data_dir: Path | None, revision: str | None) -> Source:
        return "real" if self._tasks else "toy"

    def files(self, subset: str | None, data_dir: Path | None) -> list[Path]:
        """Tasks of yours, with the functions and the data beside them."""
        place = None if self._include is None else Path(self._include)
        found = () if place is None else place.rglob("*")
        return sorted(path for path in found if path.suffix in _TASK_FILES)

    def packages(self) -> tuple[str, ...]:
        """Whose versions decide what lm-eval's own tasks ask."""
        return ("lm_eval",)

    def __init__(
        self, tasks: Sequence[str] = (), include_path: str | None = None, num_fewshot: int | None = None
    ) -> None:
        self._tasks = (tasks,) if isinstance(tasks, str) else tuple(tasks)
        self._include, self._shots = include_path, num_fewshot
        self._loaded: dict[str, dict[str, Any]] = {}

    def subsets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._names())) if self._tasks else (SHIPPED,)

    def _names(self) -> list[str]:
        manager = _manager(self._include, self._tasks)
        unknown = [task for task in self._tasks if task not in manager.all_tasks]
        if unknown:
            raise DataError(f"benchmark lm_eval: lm-eval has no task {unknown[0]!r}; see `lm-eval ls tasks`")
        return list(self._tasks)

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        if data_dir is not None or revision is not None:
            raise DataError(
                "benchmark lm_eval: a task says itself where its data is: leave out data_dir and revision"
            )
        names = self.subsets() if subset is None else (subset,)
        return [
            _sample(label, requests)
            for name in names
            for label, task in self._task(name).items()
            for requests in _by_document(task).values()
        ]

    def _task(self, name: str) -> dict[str, Any]:
        """The tasks that a name stands for, with their requests built."""
        if name not in self._loaded:
            spec = _shipped_task() if name == SHIPPED else name
            found = _manager(self._include, self._tasks or (SHIPPED,)).load([spec])["tasks"]
            for task in found.values():
                if self._shots is not None:
                    task.set_config(key="num_fewshot", value=self._shots)
                task.build_all_requests()
            self._loaded[name] = dict(found)
        return self._loaded[name]

    def score(self, samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
        names = list(dict.fromkeys(sample.extra["subset"] for sample in samples))
        by_task = {
            label: [sample for sample in samples if sample.task == label]
            for label in dict.fromkeys(sample.task for sample in samples)
        }
        tasks = {label: task for name in self._asked(names) for label, task in self._task(name).items()}
        several = len(by_task) > 1
        metrics: dict[str, ScoreValue] = {}
        per_sample: dict[str, dict[str, float]] = {}
        for label, members in by_task.items():
            found, own = _score_task(tasks[label], members, predictions)
            metrics |= {f"{label}.{name}" if several else name: value for name, value in found.items()}
            per_sample |= {key: _renamed(label, own[key]) if several else own[key] for key in own}
        return Scores(metrics=metrics, primary=next(iter(metrics)), per_sample=per_sample)

    def _asked(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The names under which the samples' tasks were loaded; all of them if they are parts of groups."""
        known = self.subsets()
        return tuple(label for label in labels if label in known) or known


def _renamed(label: str, scores: Mapping[str, float]) -> dict[str, float]:
    return {f"{label}.{name}": score for name, score in scores.items()}


def _manager(include: str | None, names: Sequence[str]) -> Any:
    """One that knows the names: that of your directory alone if it has them all, since lm-eval's own index is large."""
    if names == (SHIPPED,):
        return _index(None, False)
    if include is not None:
        own = _index(include, False)
        if set(names) <= set(own.all_tasks):
            return own
    return _index(include, True)


@lru_cache(maxsize=4)
def _index(include: str | None, defaults: bool) -> Any:
    try:
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise MissingExtra("the benchmark lm_eval", "lm-eval") from error
    return TaskManager(include_path=include, include_defaults=defaults)


def _shipped_task() -> dict[str, Any]:
    data = resources.files("paceline.evals.benchmarks") / "samples" / "lm_eval.jsonl"
    return {
        "task": SHIPPED,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{context}}\nQuestion: {{question}}\nAnswer:",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 16},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }


def _by_document(task: Any) -> dict[int, list[Any]]:
    """A task's requests, those of one document together in their order."""
    found: dict[int, list[Any]] = {}
    for request in task.instances:
        if request.request_type not in _KINDS:
            raise DataError(
                f"benchmark lm_eval: {task.config.task} wants {request.request_type}, which no adapter can do"
            )
        found.setdefault(request.doc_id, []).append(request)
    return {key: sorted(requests, key=lambda request: int(request.idx)) for key, requests in found.items()}


def _sample(label: str, requests: Sequence[Any]) -> Sample:
    first = requests[0]
    writes = first.request_type == "generate_until"
    if writes and len(requests) > 1:
        raise DataError(
            f"benchmark lm_eval: {label} has a document answered several times, which is not supported"
        )
    prompts = tuple(request.args[0] for request in requests)
    differ = len(set(prompts)) > 1  # as where a blank is filled in several ways, and the rest is weighed
    options = first.args[1] if writes else {}
    return Sample(
        id=f"{label}-{first.doc_id}",
        context="" if differ else first.args[0],
        question="",
        max_new_tokens=options.get("max_gen_toks") if writes else None,
        continuations=() if writes else tuple(request.args[1] for request in requests),
        lead_ins=prompts if differ else (),
        task=label,
        extra={"doc_id": first.doc_id, "subset": label},
    )


def _answers(sample: Sample, requests: Sequence[Any], prediction: Prediction) -> list[Any]:
    """What each request of a document was answered, as lm-eval wants it."""
    if not sample.continuations:
        until = requests[0].args[1].get("until") or []
        text = prediction.text
        for stop in [until] if isinstance(until, str) else until:
            text = text.split(stop)[0] if stop else text
        return [text]
    weighed = prediction.extra.get("loglikelihoods")
    if weighed is None or len(weighed) != len(requests):
        raise DataError(
            f"benchmark lm_eval: {sample.task} needs log-likelihoods, which the adapter did not give"
        )
    return [(float(value), bool(greedy)) for value, greedy in weighed]


def _score_task(
    task: Any, samples: Sequence[Sample], predictions: Mapping[str, Prediction]
) -> tuple[dict[str, ScoreValue], dict[str, dict[str, float]]]:
    documents = _by_document(task)
    asked = {sample.extra["doc_id"]: sample for sample in samples}
    for key, sample in asked.items():
        for request, answer in zip(
            documents[key], _answers(sample, documents[key], predictions[sample.id]), strict=True
        ):
            request.resps = [answer]
            request.filtered_resps = {}
    every, task._instances = task._instances, [request for key in asked for request in documents[key]]
    try:
        task.apply_filters()
    finally:
        task._instances = every
    filters = list(documents[next(iter(asked))][0].filtered_resps)
    values: dict[str, list[Any]] = {}
    per_sample: dict[str, dict[str, float]] = {sample.id: {} for sample in samples}
    for name in filters:
        for key, sample in asked.items():
            responses = [request.filtered_resps[name] for request in documents[key]]
            for metric, value in task.process_results(documents[key][0].doc, responses).items():
                label = metric if len(filters) == 1 else f"{metric},{name}"
                values.setdefault(label, []).append(value)
                if isinstance(value, int | float):
                    per_sample[sample.id][label] = float(value)
    return {label: _value(task, label, found) for label, found in values.items()}, per_sample


def _value(task: Any, label: str, found: Sequence[Any]) -> ScoreValue:
    metric = label.partition(",")[0]
    value = float(task.aggregation()[metric](list(found)))
    better = task.higher_is_better().get(metric, True)
    return ScoreValue(
        value=value,
        low=min(0.0, value),
        high=max(1.0, value),
        direction="higher" if better else "lower",
        n=len(found),
    )
