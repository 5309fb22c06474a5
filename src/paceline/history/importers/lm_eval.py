"""lm-evaluation-harness: its `results_….json`; the answers to single questions stay in their own files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline.history.importers.batch import make_batch, make_case, make_record, make_session, once, single
from paceline.history.importers.document import Value
from paceline.history.importers.values import environment, time_from_epoch, time_of_file
from paceline.history.session_info import Batch
from paceline.metrics import describe
from paceline.model import Direction, Measurement, Record, Scalar
from paceline.record.codec import digest

FORMAT = "lm-eval"
_NO_METRICS = frozenset({"alias", "sample_len", "name", "samples", "sample_count"})
_STDERR = re.compile(r"_stderr$")
_ARGUMENT = re.compile(r"(\w+)=([^,]+)")
_MODEL_LABELS = ("peft", "delta", "pretrained", "model", "path", "engine")
_LIMITS = ("limit", "gen_kwargs", "apply_chat_template")


def matches(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        return False
    return bool({"configs", "versions"} & data.keys()) and bool({"config", "n-shot"} & data.keys())


def batches(document: Value, path: Path) -> Iterator[Batch]:
    """One session: an evaluation of one model on some tasks."""
    date, config = document.get("date"), document.get("config")
    model = _model(document)
    time = str(date.number()) if date.is_number() else ""
    session = make_session(
        FORMAT,
        (model, time, document.get("git_hash").text(""), *document["results"].fields)
        if time
        else (digest(document.data),),
        started_at=time_from_epoch(date.number()) if date.is_number() else time_of_file(path),
        revision=config.get("model_sha").text(""),
        directory=str(path.absolute().parent),
        meta={
            "file": path.name,
            "model": model,
            "version": document.get("lm_eval_version").text(""),
            "git_hash": document.get("git_hash").text(""),
            "evaluation_time_s": document.get("total_evaluation_time_seconds").scalar(),
        },
    )
    records = (_record(task, found, document, model) for task, found in document["results"].items())
    yield make_batch(session, _environment(document), records)


def _model(document: Value) -> str:
    """The model's name among its arguments, else that of its kind: a model without a name is given a random one."""
    config = document.get("config")
    given = config.get("model_args")
    arguments = given.data if isinstance(given.data, dict) else dict(_ARGUMENT.findall(given.text("")))
    name = document.get("model_name").text("")
    if name and name in map(str, arguments.values()):
        return name
    named = (str(arguments[label]) for label in _MODEL_LABELS if arguments.get(label))
    return next(named, "") or config.get("model").text("") or document.get("model_source").text("model")


def _environment(document: Value) -> dict[str, Any]:
    """From the report that PyTorch makes of the machine."""
    report = document.get("pretty_env_info").text("")
    versions = {name: document.get(f"{name}_version").text("") for name in ("lm_eval", "transformers")}
    versions["torch"] = _line(report, "PyTorch version")
    return environment(
        os=_line(report, "OS"),
        cpu=_line(report, "Model name"),
        cpus=Value(_line(report, "CPU(s)"), "").count(),
        machine=_line(report, "Architecture"),
        python=_line(report, "Python version").partition(" ")[0],
        gpus=re.findall(r"^(?:GPU models and configuration: )?GPU \d+: (.+)$", report, re.MULTILINE),
        packages={name: version for name, version in versions.items() if version not in ("", "N/A")},
    )


def _line(report: str, label: str) -> str:
    found = re.search(rf"^[ \t]*{re.escape(label)}:[ \t]*(\S.*)$", report, re.MULTILINE)
    return found[1].strip() if found else ""


def _record(task: str, results: Value, document: Value, model: str) -> Record:
    shots, config = document.get("n-shot").get(task), document.get("config")
    params: dict[str, Scalar] = {"model": model}
    if shots.data is not None:
        params["num_fewshot"] = shots.scalar()
    # What changes the questions or the way they are asked makes another series.
    limits = {name: config.get(name) for name in _LIMITS}
    params |= {name: _whole(limit.scalar()) for name, limit in limits.items() if limit.data}
    better = document.get("higher_is_better").get(task)
    metrics = dict(_metric(name, value, better) for name, value in results.items() if _is_metric(name, value))
    count = document.get("n-samples").get(task).get("effective")
    return make_record(
        make_case(task, params, version=_version(document.get("versions").get(task))),
        metrics,
        params=config.scalars(),
        details={
            "alias": results.get("alias").text("").strip(),
            "num_samples": count.scalar(),
            "task_hash": document.get("task_hashes").get(task).text(""),
            "chat_template_sha": document.get("chat_template_sha").text(""),
        },
    )


def _version(version: Value) -> str:
    return "1" if version.data is None else str(_whole(version.scalar()))


def _whole(value: Scalar) -> Scalar:
    """4.0 as 4: the harness has written the same number both ways."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_metric(name: str, value: Value) -> bool:
    return name not in _NO_METRICS and value.is_number()


def _metric(name: str, value: Value, better: Value) -> tuple[str, Measurement]:
    """`acc,none` is `acc`; with a filter that did something, `exact_match,strict` is `strict.exact_match`."""
    metric, _, filtered = name.partition(",")
    full = f"{filtered}.{metric}" if filtered not in ("", "none") else metric
    if _STDERR.search(metric):
        return full, single(value.number(), None, None)
    return full, once(value.number(), None, _direction(metric, better.get(metric)))


def _direction(metric: str, better: Value) -> Direction | None:
    if isinstance(better.data, bool):
        return "higher" if better.data else "lower"
    return describe(
        {"acc": "accuracy", "acc_norm": "accuracy", "exact_match": "accuracy"}.get(metric, metric)
    ).direction
