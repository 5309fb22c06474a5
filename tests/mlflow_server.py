"""A real MLflow server on a free port of this machine, which can be killed and started again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from free_port import free_port
from patience import wait_until


class MlflowServer:
    """Its store is an SQLite file in a directory; the port stays the same over restarts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.database = directory / "server.db"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "MlflowServer":
        if self._process is not None:
            return self
        environ = {
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # Compiling MLflow anew takes half a minute.
        store = ["--backend-store-uri", f"sqlite:///{self.database}"]
        shelf = ["--artifacts-destination", str(self._directory / "artifacts")]
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"),
                    *("--port", str(self.port), "--workers", "1", *store, *shelf),
                ],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._is_healthy, f"the start of MLflow (see {log.name})", by=self._process)
        return self

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _is_healthy(self) -> bool:
        try:
            with urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.uri)

    def runs(self, experiment: str) -> list[Any]:
        """All runs of an experiment, those that were deleted too."""
        from mlflow.entities import ViewType

        client = self.client()
        found = client.get_experiment_by_name(experiment)
        return list(client.search_runs([found.experiment_id], "", ViewType.ALL)) if found else []

    def children(self, experiment: str) -> list[Any]:
        return [run for run in self.runs(experiment) if "mlflow.parentRunId" in run.data.tags]

    def parents(self, experiment: str) -> list[Any]:
        return [run for run in self.runs(experiment) if "mlflow.parentRunId" not in run.data.tags]
