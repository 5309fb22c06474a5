"""Where a session ran. A fact that cannot be read is simply absent; nothing here ever fails a run."""

import fnmatch
import getpass
import math
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from paceline.model import Settings
from paceline.record.capacity import cgroup_limits, read_system
from paceline.record.codec import digest
from paceline.record.events import utc_now
from paceline.record.packages import conda_explicit, describe_python
from paceline.record.redact import MASK, TAKEN_OUT, Redactor, is_secret_name, mask_urls
from paceline.record.repository import find_top, git_of_suite, git_state

_GIB = 1 << 30
# The variables that decide how fast programs run and what they give. All others stay where they are.
_DECISIVE = """
OMP_* KMP_* GOMP_* OMPI_* MKL_* OPENBLAS_* GOTO_* BLIS_* VECLIB_* NUMEXPR_* NUMBA_* POLARS_* DUCKDB_* ARROW_* DASK_*
RAY_* SLURM_* UCX_* NCCL_* CUDA_* CUDNN_* CUBLAS_* CUDF_* NVIDIA_* ROCR_* HIP_* HSA_* GPU_* TORCH* PYTORCH_*
TRITON_* VLLM_* TF_* XLA_* JAX_* HF_* TRANSFORMERS_* TOKENIZERS_* MALLOC_* GLIBC_* LD_PRELOAD LD_LIBRARY_PATH
LD_BIND_NOW PYTHON* JAVA_HOME JVM_* GOMAXPROCS GOGC GOMEMLIMIT LANG LANGUAGE LC_* TZ CONDA_DEFAULT_ENV VIRTUAL_ENV
""".split()  # noqa: SIM905 - else a line for each name
# Those that name a CI's server, repository, run and ref: a session's link and branch come from them.
_CI = """
CI GITHUB_ACTIONS GITHUB_SERVER_URL GITHUB_REPOSITORY GITHUB_RUN_* GITHUB_WORKFLOW GITHUB_JOB GITHUB_REF
GITHUB_REF_NAME GITHUB_HEAD_REF GITHUB_BASE_REF GITHUB_SHA GITHUB_EVENT_NAME CI_SERVER_URL CI_PROJECT_PATH
CI_PROJECT_URL CI_PIPELINE_* CI_JOB_ID CI_JOB_NAME CI_JOB_URL CI_COMMIT_SHA CI_COMMIT_REF_NAME CI_COMMIT_BRANCH
CI_COMMIT_TAG BUILD_URL BUILD_NUMBER JOB_NAME BRANCH_NAME GIT_BRANCH GIT_COMMIT BUILDKITE_BUILD_* BUILDKITE_BRANCH
BUILDKITE_COMMIT CIRCLE_BUILD_* CIRCLE_BRANCH CIRCLE_SHA1
""".split()  # noqa: SIM905 - else a line for each name
# True of one moment or one session only: two sessions on an unchanged machine share an environment id.
MOMENTARY = frozenset(
    {
        "load",
        "memory_available_bytes",
        "disk_free_bytes",
        "command_line",
        "run_reason",
        "viewer_url",
    }
)


IN_PART = "known_in_part"
"""Is in an environment of which another tool told only some facts: what is absent in it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is known of the place a session ran in; `data` is what `environment.json` holds.

    `id` changes with any lasting fact; `class_id` only with what makes two runs comparable (`data["comparable"]`).
    """

    id: str
    class_id: str
    data: Mapping[str, Any]
    packages: tuple[str, ...]
    conda_explicit: str | None = None

    @property
    def revision(self) -> str:
        """The git revision of the suite, else of the current directory; empty when unknown."""
        return str(git_of_suite(self.data).get("revision", ""))


def capture(
    *,
    python: str = sys.executable,
    cwd: Path | None = None,
    config_files: Sequence[Path] = (),
    environ: Mapping[str, str] | None = None,
    redactor: Redactor | None = None,
    secret_names: Sequence[str] = (),
    settings: Settings | None = None,
    command_line: Sequence[str] | None = None,
) -> Environment:
    """Look at the machine, the container, the GPUs, Python, the repositories and the variables."""
    environ = os.environ if environ is None else environ
    redactor, settings = redactor or Redactor(), settings or Settings()
    interpreter = describe_python(python)
    packages = tuple(redactor.text(mask_urls(line)) for line in interpreter.pop("packages", ()))
    interpreter.pop("path", None)
    where = cwd or _attempt(Path.cwd) or Path("/")
    uname = os.uname()
    facts = {
        "hostname": environ.get("HOST_HOSTNAME") or uname.nodename,
        "platform": f"{uname.sysname}-{uname.release}-{uname.machine}",
        "machine": uname.machine,
        "kernel": uname.release,
        "os": _operating_system(),
        "image_digest": environ.get("IMAGE_DIGEST"),
        "cpu": _cpu(),
        **_memory(),
        "container": container_facts(environ),
        **_gpus(),
        "python": interpreter,
        **_repositories(where, config_files[0].parent if config_files else None, environ),
        "load": _attempt(lambda: [round(value, 2) for value in os.getloadavg()]),
        "disk_free_bytes": _attempt(lambda: shutil.disk_usage(where).free),
        "capture_env": list(settings.capture_env),
        "variables": captured_variables(environ, settings.capture_env, secret_names),
        "command_line": mask_urls(list(sys.argv if command_line is None else command_line)),
        "run_reason": settings.run_reason,
        "viewer_url": settings.viewer_url,
    }
    facts = {name: fact for name, fact in facts.items() if fact not in (None, {}, [])}
    known: dict[str, Any] = redactor.values(facts)
    for name in ("git", "config_git"):  # hashes are nobody's secret, whatever letters they have
        hashes = {key: facts.get(name, {}).get(key) for key in ("revision", "merge_base", "diff_sha256")}
        known.get(name, {}).update({key: value for key, value in hashes.items() if value})
    lasting = {name: fact for name, fact in known.items() if name not in MOMENTARY}
    comparable, conda = _comparable(facts), conda_explicit(environ)
    ids = {"id": digest([lasting, packages]), "class_id": digest(comparable)}
    return Environment(
        **ids,
        data={**ids, "captured_at": utc_now(), **known, "comparable": comparable},
        packages=packages,
        conda_explicit=conda and redactor.text(conda),
    )


def captured_variables(
    environ: Mapping[str, Any], asked: Iterable[str] = (), secret_names: Collection[str] = ()
) -> dict[str, Any]:
    """The variables of the allow-list and those that a suite asked for, `*` for any letters, without secrets."""
    allowed = _allowed(tuple(asked)).match

    def shown(name: str, value: Any) -> Any:
        is_secret = name in secret_names or (
            is_secret_name(name) and f"{TAKEN_OUT}{name}" not in secret_names
        )
        return MASK if is_secret else mask_urls(value)

    return {name: shown(name, value) for name, value in sorted(environ.items()) if allowed(name)}


@lru_cache(maxsize=8)  # a history is imported session by session, and most ask for the same
def _allowed(asked: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, (*_DECISIVE, *_CI, *asked))))


def without_others(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an `environment.json`, which older versions wrote with all variables, with the allowed ones only."""
    known: dict[str, Any] = mask_urls({name: fact for name, fact in data.items() if name != "variables"})
    variables, asked = data.get("variables"), data.get("capture_env")
    if isinstance(variables, dict):
        names = [str(name) for name in asked] if isinstance(asked, list) else []
        # Of what was asked for by its name, secrets were masked when it was written.
        known["variables"] = captured_variables(variables, names, [f"{TAKEN_OUT}{name}" for name in names])
    return known


def _comparable(data: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal for the numbers of two runs to be compared."""
    cpu, container = data.get("cpu", {}), data.get("container", {})
    memory_bytes = min(data.get("memory_bytes", 0), container.get("memory_limit_bytes", math.inf))
    return {
        "cpu": cpu.get("model"),
        "cpus": cpu.get("count"),
        "usable_cpus": min(len(cpu.get("affinity", ())), container.get("cpu_limit", math.inf)),
        "memory_gib": round(memory_bytes / _GIB),
        "kernel": major_minor(data.get("kernel", "")),
        "in_container": "kind" in container,
        "gpus": [gpu.get("name") for gpu in data.get("gpus", ())],
        "gpu_driver": data.get("gpu_driver"),
        "python": major_minor(data.get("python", {}).get("version", "")),
        "machine": data.get("machine"),
        "os": data.get("os"),
    }


def major_minor(version: str) -> str:
    """The first two numbers of a version."""
    return ".".join(re.findall(r"\d+", version)[:2])


def _attempt(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, ValueError):
        return None


def _operating_system() -> str:
    release = _attempt(platform.freedesktop_os_release) or {}
    return f"{release.get('ID', os.uname().sysname)} {release.get('VERSION_ID', '')}".strip()


def _cpu() -> dict[str, Any]:
    cpus = "/sys/devices/system/cpu"
    no_turbo, boost = read_system(f"{cpus}/intel_pstate/no_turbo"), read_system(f"{cpus}/cpufreq/boost")
    names = r"^(?:model name|Model|cpu model|CPU part)\s*:\s*(.+)$"
    model = re.search(names, read_system("/proc/cpuinfo"), re.MULTILINE)
    facts = {
        "model": model[1].strip() if model else None,
        "count": os.cpu_count(),
        "affinity": _attempt(lambda: sorted(os.sched_getaffinity(0))),
        "governor": read_system(f"{cpus}/cpu0/cpufreq/scaling_governor") or None,
        "turbo": no_turbo == "0" if no_turbo else boost == "1" if boost else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _memory() -> dict[str, int]:
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", read_system("/proc/meminfo"), re.MULTILINE))
    wanted = {
        "memory_bytes": "MemTotal",
        "memory_available_bytes": "MemAvailable",
        "swap_bytes": "SwapTotal",
    }
    facts = {name: int(fields[field]) * 1024 for name, field in wanted.items() if field in fields}
    shm_bytes = _attempt(lambda: shutil.disk_usage("/dev/shm").total)  # noqa: S108 - only its size
    return {**facts, "shm_bytes": shm_bytes} if shm_bytes else facts


def container_facts(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, Any]:
    kind = _container_kind(environ, root)
    return {**({"kind": kind} if kind else {}), **cgroup_limits(root)}


def _container_kind(environ: Mapping[str, str], root: Path) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    if "APPTAINER_CONTAINER" in environ or "SINGULARITY_CONTAINER" in environ:
        return "apptainer"
    # Unlike a Path's `exists`, this says False where we may not look.
    if os.path.exists(root / "run/.containerenv"):  # noqa: PTH110
        return "podman"
    if os.path.exists(root / ".dockerenv"):  # noqa: PTH110
        return "docker"
    match = re.search(r"kubepods|docker|containerd|lxc|podman", read_system(root / "proc/1/cgroup"))
    return match[0] if match else environ.get("container")


def _gpus() -> dict[str, Any]:
    """GPUs by NVIDIA's library; nothing where there is no driver or no Python package for it."""
    try:
        import pynvml
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    facts: dict[str, Any] = {"gpus": []}
    questions = {
        "name": pynvml.nvmlDeviceGetName,
        "memory_bytes": lambda handle: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        "uuid": pynvml.nvmlDeviceGetUUID,
    }
    with suppress(pynvml.NVMLError):
        facts["gpu_driver"] = pynvml.nvmlSystemGetDriverVersion()
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle, gpu = pynvml.nvmlDeviceGetHandleByIndex(index), dict[str, Any]()
            for name, ask in questions.items():
                with suppress(pynvml.NVMLError):
                    gpu[name] = ask(handle)
            facts["gpus"].append(gpu)
    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()
    return facts


def _repositories(cwd: Path, config_dir: Path | None, environ: Mapping[str, str]) -> dict[str, Any]:
    here, config_top = (find_top(_attempt(path.absolute) or Path("/")) for path in (cwd, config_dir or cwd))
    facts = {"git": git_state(here, environ)} if here else {}
    if config_top and config_top != here:
        facts["config_git"] = git_state(config_top, environ)
    return facts


def user_name() -> str:
    """Who is at work here; empty if that is not known: a container's user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
