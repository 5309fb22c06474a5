"""Weights & Biases: a group for the session, a run for each record; offline where there is no account."""

import hashlib
import os
from collections.abc import Mapping
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from paceline.model import Plan, Record, as_float
from paceline.record import below
from paceline.record.codec import plain
from paceline.sinks import Sink, SinkContext, TryLater

API_KEY, BASE_URL = "WANDB_API_KEY", "WANDB_BASE_URL"
# Meant for a training script that makes one run; here they would make all records one.
_ONE_RUN = (
    *("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_NAME", "WANDB_RUN_GROUP", "WANDB_JOB_TYPE", "WANDB_TAGS"),
    *("WANDB_NOTES", "WANDB_SWEEP_ID", "WANDB_SERVICE", "WANDB_ARTIFACT_DIR"),
)


class WandbOptions(BaseModel):
    """Which project, and whether to reach out."""

    model_config = ConfigDict(extra="forbid")

    project: str = Field(default="paceline", min_length=1, description="The project; it is made if need be.")
    entity: str | None = Field(default=None, description="The user or team; that of the account by default.")
    mode: Literal["auto", "online", "offline"] = Field(
        default="auto",
        description="`auto`: online with an account (`WANDB_API_KEY`, or a login in `.netrc`), else offline.",
    )
    directory: str | None = Field(
        default=None,
        description="Where its files go; the results directory by default. They are in `wandb/` there.",
    )


class WandbSink(Sink):
    """Gives each record the same run id at every try, so that a repeated call makes no second run."""

    Options = WandbOptions
    needs = ("wandb", "wandb")

    def __init__(self, options: WandbOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        self._directory = Path(options.directory or context.session_dir.parent).absolute()
        key = context.find_secret(API_KEY)
        self._mode = options.mode if options.mode != "auto" else _default_mode(context.environ, key)
        self._isolate()

    def open(self, plan: Plan) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._mode == "offline":
            where = self._directory / "wandb"
            self.context.say(f"offline; to upload: wandb sync --include-offline {where}/offline-run-*")

    def record(self, record: Record) -> None:
        run_id = hashlib.sha256(self.context.key.encode()).hexdigest()[:32]
        self._remove_halves(run_id)
        run = self._start(record, run_id)
        try:
            for step, row in enumerate(_steps(record)):
                run.log(row, step=step)
            run.summary.update(_summary(record))
        finally:
            run.finish(exit_code=0 if record.status.ok else 1)
        if self._mode == "online" and run.url:
            self.context.save_state(url=run.url)

    def _start(self, record: Record, run_id: str) -> Any:
        import wandb

        try:
            return wandb.init(
                project=self.options.project,
                entity=self.options.entity,
                group=self.context.session,
                job_type="entry",
                name=record.case.name,
                id=run_id,
                resume="allow" if self._mode == "online" else None,
                tags=list(record.case.tags)[:20] or None,
                config=_config(record),
                dir=str(self._directory),
                mode=self._mode,
                reinit="create_new",
                settings=_settings(wandb),
            )
        except wandb.errors.CommError as error:
            raise TryLater(str(error)) from error

    def _remove_halves(self, run_id: str) -> None:
        """Take away what an earlier process had begun to write of this very run."""
        for name in below.names(self._directory, "wandb"):
            if name.startswith("offline-run-") and name.endswith(f"-{run_id}"):
                below.remove_tree(self._directory, f"wandb/{name}")

    def _isolate(self) -> None:
        own = self.context.state_dir
        for name in _ONE_RUN:
            os.environ.pop(name, None)
        os.environ.update(
            {
                "WANDB_DIR": str(self._directory),
                "WANDB_CACHE_DIR": str(own / "cache"),
                "WANDB_DATA_DIR": str(own / "data"),
                "WANDB_CONFIG_DIR": str(own / "config"),
                "WANDB_ERROR_REPORTING": "false",
                "WANDB_SILENT": "true",
            }
        )


def _default_mode(environ: Mapping[str, str], key: str | None) -> Literal["online", "offline"]:
    asked = environ.get("WANDB_MODE", "")
    if asked in ("offline", "dryrun", "disabled"):
        return "offline"
    return "online" if key or _has_login(environ) else "offline"


def _has_login(environ: Mapping[str, str]) -> bool:
    host = urlsplit(environ.get(BASE_URL) or "https://api.wandb.ai").hostname or ""
    path = environ.get("NETRC") or Path.home() / ".netrc"
    try:
        return netrc(str(path)).authenticators(host) is not None
    except (OSError, NetrcParseError):
        return False


def _settings(wandb: Any) -> Any:
    """Nothing but what is logged: no console, no machine statistics, no code, no git state of this process."""
    wanted = {
        "console": "off",
        "silent": True,
        "disable_git": True,
        "disable_code": True,
        "save_code": False,
        "x_disable_stats": True,
        "x_disable_machine_info": True,
    }
    known = wandb.Settings.model_fields
    return wandb.Settings(**{name: value for name, value in wanted.items() if name in known})


def _config(record: Record) -> dict[str, Any]:
    return {
        **plain({**record.case.params, **record.params}),
        "paceline": {
            "session": record.session,
            "case": record.case.name,
            "key": record.case.key,
            "attempt": record.attempt,
            "revision": record.revision,
            "environment": record.environment,
        },
    }


def _steps(record: Record) -> list[dict[str, float]]:
    """The samples of all metrics, step by step."""
    count = max((len(measured.samples) for measured in record.metrics.values()), default=0)
    rows = []
    for step in range(count):
        samples = {
            name: as_float(measured.samples[step])
            for name, measured in record.metrics.items()
            if step < len(measured.samples)
        }
        rows.append({name: value for name, value in samples.items() if value is not None})
    return [row for row in rows if row]


def _summary(record: Record) -> dict[str, Any]:
    values = {name: measured.value for name, measured in record.metrics.items()}
    return {
        **values,
        "status": record.status.value,
        "reason": record.reason,
        "exec_time_s": record.exec_time_s,
    }
