"""What `ray:` becomes: flags and environments."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.record.capacity import usable_memory_bytes
from paceline.run.ray.home import Home
from paceline.run.ray.ports import (
    PURPOSES,
    Ports,
    daemon_env,
    script_env,
    start_flags,
    store_bytes,
)

PORTS = Ports({purpose: 20000 + position for position, purpose in enumerate(PURPOSES)})


def flags(**options: Any) -> dict[str, str]:
    words = start_flags(options, PORTS, Path("/somewhere/r"))
    return dict(word.partition("=")[::2] for word in words)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home.create({"TMPDIR": "/tmp"}, "run")
    yield made
    made.remove()


def test_zero_is_a_number_like_any_other() -> None:
    assert flags(num_cpus=0, num_gpus=0)["--num-cpus"] == "0"
    assert flags(num_cpus=0, num_gpus=0)["--num-gpus"] == "0"
    assert flags(num_gpus=2)["--num-gpus"] == "2"


def test_defaults_are_the_machines_cpus_no_gpu_no_spilling_and_a_dashboard_if_ray_has_one() -> None:
    found = flags()
    assert "--num-cpus" not in found and "--object-store-memory" not in found
    assert found["--num-gpus"] == "0" and "--include-dashboard" not in found
    assert flags(dashboard=False)["--include-dashboard"] == "false"
    assert json.loads(found["--system-config"])["automatic_object_spilling_enabled"] is False


def test_spilling_and_dashboard_on_request() -> None:
    found = flags(enable_object_spilling=True, dashboard=True)
    assert json.loads(found["--system-config"]) == {"automatic_object_spilling_enabled": True}
    assert found["--include-dashboard"] == "true" and found["--dashboard-host"] == "127.0.0.1"


def test_every_port_is_given_and_none_twice() -> None:
    found = flags()
    given_ports = [value for flag, value in found.items() if flag.endswith("port") and value != "0"]
    assert len(given_ports) == len(set(given_ports)) == 7
    numbers = daemon_env({}, {}, PORTS, start_timeout_s=1)
    assert {numbers["AUTOSCALER_METRIC_PORT"], numbers["DASHBOARD_METRIC_PORT"]}.isdisjoint(given_ports)


@given(size=st.integers(min_value=1, max_value=1 << 60))
def test_whole_numbers_are_bytes(size: int) -> None:
    assert store_bytes({"object_store_memory": size}) == store_bytes({"object_store_size": size}) == size


@given(fraction=st.floats(min_value=0.01, max_value=1))
def test_fractions_are_of_the_memory(fraction: float) -> None:
    assert store_bytes({"object_store_memory": fraction}) == int(fraction * usable_memory_bytes())


@pytest.mark.parametrize("size", [0, -1, 0.0, float("nan"), True, "4 GiB", []])
def test_impossible_sizes_are_refused(size: object) -> None:
    with pytest.raises(ValueError, match="object_store_memory is"):
        store_bytes({"object_store_memory": size})


@pytest.mark.parametrize("options", [{}, {"object_store_memory": None}, {"object_store_size": "default"}])
def test_the_default_size_is_left_to_ray(options: dict[str, Any]) -> None:
    assert store_bytes(options) is None


def test_the_script_is_led_to_its_cluster_and_nothing_of_the_users_is_changed(home: Home) -> None:
    environ = {"RAY_ADDRESS": "users:1", "RAY_AUTH_TOKEN": "users-token", "PATH": "/bin"}
    env = script_env(environ, home, PORTS, dashboard=False)
    assert env["RAY_ADDRESS"] == f"127.0.0.1:{PORTS['gcs']}"
    assert env["RAY_AUTH_MODE"] == "token" and env["RAY_AUTH_TOKEN_PATH"] == str(home.token_path)
    assert [env[f"RAY_MAX_LIMIT_FROM_{name}"] for name in ("API_SERVER", "DATA_SOURCE")] == ["40000", "40000"]
    assert env["RAY_AUTH_TOKEN"] == "" and "RAY_API_SERVER_ADDRESS" not in env
    assert environ["RAY_ADDRESS"] == "users:1" and environ["RAY_AUTH_TOKEN"] == "users-token"


def test_authentication_that_the_user_switched_off_stays_off(home: Home) -> None:
    environ = {"RAY_AUTH_MODE": "disabled", "RAY_MAX_LIMIT_FROM_API_SERVER": "7"}
    env = script_env(environ, home, PORTS, dashboard=True)
    assert env["RAY_MAX_LIMIT_FROM_API_SERVER"] == "7"
    assert not any(name.startswith("RAY_AUTH") for name in env)
    assert env["RAY_API_SERVER_ADDRESS"] == f"http://127.0.0.1:{PORTS['dashboard']}"


def test_the_daemons_know_of_no_other_cluster() -> None:
    environ = {"RAY_ADDRESS": "users:1", "RAY_REDIS_ADDRESS": "users:2", "OTHER": "kept"}
    env = daemon_env(environ, {"RAY_ADDRESS": "ours:1"}, PORTS, start_timeout_s=12.5)
    assert "RAY_ADDRESS" not in env and "RAY_REDIS_ADDRESS" not in env
    assert env["OTHER"] == "kept" and env["RAY_raylet_start_wait_time_s"] == "13"
