"""The Dockerfile, the scripts, the compose file and the Kubernetes manifests are sound, as far as files can show it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

import postgres_server
from paceline import __version__
from paceline.cli.mounts import IMAGE_ENVIRON, IMAGE_USER
from paceline.record.redact import is_secret_name
from workplace import Workplace

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = REPOSITORY / "docker" / "Dockerfile"
MANIFESTS = REPOSITORY / "deploy" / "kubernetes"
COMPOSE = REPOSITORY / "docker" / "compose.yaml"
PINNED = re.compile(r"(?:[\w.-]+(?::\d+)?/)*[\w-]+(?::v?\d+(?:\.\d+)+[\w.-]*|@sha256:[0-9a-f]{64})")
KUBERNETES = "1.34"


def linter(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(
            f"{name} is not installed: 'make setup' does it, where its package has a build for this machine"
        )
    return found


def test_the_dockerfile_passes_its_linter() -> None:
    done = subprocess.run([linter("hadolint"), "--no-color", DOCKERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_scripts_pass_their_linter() -> None:
    scripts = sorted((REPOSITORY / "tools").glob("*.sh"))
    assert len(scripts) >= 3
    done = subprocess.run(
        [
            linter("shellcheck"),
            "--external-sources",
            "--enable=all",
            "--exclude=SC2244,SC2250,SC2310,SC2312",
            *scripts,
        ],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_no_script_reads_text_as_code() -> None:
    for script in (REPOSITORY / "tools").glob("*.sh"):
        code = [line for line in script.read_text().splitlines() if not line.lstrip().startswith("#")]
        assert not [line for line in code if re.search(r"\beval\b|\bsh -c\b|\bxargs\b", line)]


def test_the_dockerfile_says_what_paceline_believes_of_it() -> None:
    text = DOCKERFILE.read_text()
    for name, value in IMAGE_ENVIRON.items():
        assert re.search(rf"^ +{name}={value}\b", text, re.MULTILINE), name
    assert f"USER {IMAGE_USER}:{IMAGE_USER}" in text
    base = re.search(r"^ARG BASE_IMAGE=(.*)", text, re.MULTILINE)
    assert base and PINNED.fullmatch(base[1])
    cuda = re.search(r"^CUDA_BASE=(.*)", (REPOSITORY / "tools/build_docker.sh").read_text(), re.MULTILINE)
    assert cuda and PINNED.fullmatch(cuda[1])


def test_all_that_the_dockerfile_copies_is_sent_to_the_engine() -> None:
    allowed = {
        line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    lines = re.findall(r"^COPY (?!--from)(.*)", DOCKERFILE.read_text(), re.MULTILINE)
    copied = {word for line in lines for word in line.split()[:-1]}
    assert copied == allowed
    assert all((REPOSITORY / name).exists() for name in copied)


# Compose


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


def default_of(text: str) -> str:
    """What is left of a value when no variable is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_services_are_pinned_bound_to_loopback_and_without_rights(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert PINNED.fullmatch(default_of(service["image"])), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert not service.get("privileged")
        assert name == "postgres" or service["cap_drop"] == ["ALL"], name
    assert f"paceline:{__version__}" in default_of(compose["services"]["dashboard"]["image"])


def test_services_that_stay_are_looked_after(compose: dict[str, Any]) -> None:
    """By a check of their own, or by that of the image; those that end are waited for."""
    services = compose["services"]
    staying = {name for name, service in services.items() if "restart" in service}
    assert staying == {"postgres", "mlflow", "dashboard"}
    for name in staying - {"dashboard"}:
        assert services[name]["healthcheck"]["test"][0] == "CMD"
    assert "healthcheck" not in services["dashboard"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            expected = "service_healthy" if other in staying else "service_completed_successfully"
            assert how["condition"] == expected, (name, other)


def test_compose_holds_no_secret(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if is_secret_name(name):
                assert value is None or re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), name
    assert not re.search(r"://[^/\s:]+:[^/\s@]+@", COMPOSE.read_text())


def test_the_dashboard_starts_on_an_empty_database(compose: dict[str, Any], place: Workplace) -> None:
    """As the service does, but on a free port of loopback."""
    other = {"8000": "0", "0.0.0.0": "127.0.0.1", "/results": str(place.path)}
    words = [other.get(word, word) for word in compose["services"]["dashboard"]["command"]]
    environ = {**os.environ, "PACELINE_DB": postgres_server.server().new_database()}
    with subprocess.Popen(
        place.command(*words), cwd=place.path, env=environ, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            with urlopen(server.stdout.readline().strip(), timeout=60) as answer:
                assert answer.status == 200
        finally:
            server.kill()


def test_options_of_the_run_are_known(compose: dict[str, Any]) -> None:
    from paceline.cli.run import command

    known = {option for parameter in command.params for option in parameter.opts}
    words = compose["services"]["paceline"]["command"]
    assert {word for word in words if word.startswith("--")} <= known


# Kubernetes


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(MANIFESTS.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            yield file.name, document


ALL = [(file, document) for file, document in documents() if file != "kustomization.yaml"]


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """Every pod that a manifest describes, however deep: what has containers is one."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for child in value.values():
            yield from pods(child)
    elif isinstance(value, list):
        for child in value:
            yield from pods(child)


PODS = [(f"{file}-{index}", pod) for file, document in ALL for index, pod in enumerate(pods(document))]


def test_all_manifests_are_applied() -> None:
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    listed = [*kustomization["resources"], "kustomization.yaml"]
    for generated in kustomization["configMapGenerator"]:
        for file in generated["files"]:
            path = file.partition("=")[2] or file
            assert (MANIFESTS / path).is_file()
            listed.append(path)
    assert sorted(listed) == sorted(
        str(file.relative_to(MANIFESTS)) for file in MANIFESTS.rglob("*") if file.is_file()
    )


@pytest.mark.parametrize(("file", "document"), ALL, ids=[f"{file}-{one['kind']}" for file, one in ALL])
def test_manifests_follow_the_schemas_of_kubernetes(file: str, document: dict[str, Any]) -> None:
    """A RayJob has no schema there; its pods have."""
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="the schemas of Kubernetes are missing"
    )
    if not document["apiVersion"].startswith("ray.io/"):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    for pod in pods(document):
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": pod}
        kubernetes_validate.validate(whole, KUBERNETES, strict=True)


def test_there_are_pods_to_check_and_the_schemas_see_a_mistake() -> None:
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="the schemas of Kubernetes are missing"
    )
    assert len(PODS) == 3
    wrong = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one"},
        "spec": {**PODS[0][1], "runAsUsr": 1},
    }
    with pytest.raises(kubernetes_validate.ValidationError, match="runAsUsr"):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


@pytest.mark.parametrize(("name", "pod"), PODS, ids=[name for name, _ in PODS])
def test_pods_have_no_rights_and_known_needs(name: str, pod: dict[str, Any]) -> None:
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == IMAGE_USER
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is (pod["serviceAccountName"] == "paceline-nightly")
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        assert PINNED.fullmatch(container["image"])
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert (
            set(container["resources"]["requests"])
            == set(container["resources"]["limits"])
            == {"cpu", "memory"}
        )
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        for variable in container["env"]:
            assert not is_secret_name(variable["name"]) or "secretKeyRef" in variable["valueFrom"]


def test_there_is_no_secret_and_no_password() -> None:
    assert not [file for file, document in ALL if document["kind"] == "Secret"]
    for file in MANIFESTS.rglob("*.yaml"):
        assert not re.search(r"://[^/\s:]+:[^/\s@]+@", file.read_text())


def test_rights_are_the_least() -> None:
    (role,) = [document for _, document in ALL if document["kind"] == "Role"]
    assert role["rules"] == [{"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["create"]}]
    accounts = {document["metadata"]["name"] for _, document in ALL if document["kind"] == "ServiceAccount"}
    assert accounts == {pod["serviceAccountName"] for _, pod in PODS}


FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def is_schedule(text: str) -> bool:
    """Five fields of `*`, numbers, ranges and steps, each within its bounds."""
    fields = text.split()
    return len(fields) == 5 and all(map(_is_field, fields, FIELDS))


def _is_field(text: str, bounds: tuple[int, int]) -> bool:
    low, high = bounds
    for part in text.split(","):
        found = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
        if not found or not all(low <= int(number) <= high for number in found.groups()[:2] if number):
            return False
    return True


def test_the_night_has_an_hour() -> None:
    (cron,) = [document for _, document in ALL if document["kind"] == "CronJob"]
    assert is_schedule(cron["spec"]["schedule"])
    assert not is_schedule("0 24 * * *")
    assert not is_schedule("0 2 * *")
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    (job,) = [document for _, document in ALL if document["kind"] == "RayJob"]
    assert job["spec"]["activeDeadlineSeconds"] < 24 * 3600  # one night has ended when the next begins
    assert job["spec"]["shutdownAfterJobFinishes"] is True


def test_the_cluster_runs_our_image_and_its_ray() -> None:
    (job,) = [document for _, document in ALL if document["kind"] == "RayJob"]
    images = {container["image"] for pod in pods(job) for container in pod["containers"]}
    assert images == {f"registry.example.org/paceline:{__version__}"}
    locked = re.search(r"^ray==(\d+)\.", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)
    assert locked and job["spec"]["rayClusterSpec"]["rayVersion"].startswith(f"{locked[1]}.")


def test_the_cluster_s_suite_and_command_are_sound(place: Workplace) -> None:
    (job,) = [document for _, document in ALL if document["kind"] == "RayJob"]
    program, command, suite, *options = job["spec"]["entrypoint"].split()
    assert (program, command, suite) == ("paceline", "run", "/suite/nightly.yaml")
    text = (MANIFESTS / "suite" / "nightly.yaml").read_text().replace("/opt/paceline/suites", str(REPOSITORY))
    place.write("nightly.yaml", text)
    shown = place.run("plan", "nightly.yaml", "--results-dir", place.path / "results")
    assert shown.returncode == 0, shown.stderr
    known = place.run("run", "--help").stdout
    assert all(word in known for word in options if word.startswith("--"))


def test_what_an_image_installs_is_known_by_its_hash(compose: dict[str, Any]) -> None:
    built = [
        service["build"]
        for service in compose["services"].values()
        if "dockerfile_inline" in service.get("build", {})
    ]
    assert built
    for build in built:
        installs = [line for line in build["dockerfile_inline"].splitlines() if "pip install" in line]
        assert installs and all("--require-hashes" in line for line in installs)
    lock = (REPOSITORY / "docker/mlflow.lock").read_text()
    version = compose["services"]["mlflow"]["image"].rpartition(":")[2]
    assert (
        f"mlflow=={version} " in lock
        and (REPOSITORY / "docker/mlflow.in").read_text() == f"mlflow=={version}\n"
    )
    pins = re.findall(r"^[\w.-]+==.*?(?=^[\w.-]+==|\Z)", lock, re.DOTALL | re.MULTILINE)
    assert len(pins) > 50 and all("--hash=sha256:" in pin for pin in pins)
