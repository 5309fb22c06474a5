"""Which stub runs next and where: models stay, the longest goes first, memory is not given out twice."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import PacelineError
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    ExecutorOptions,
    Matrix,
    ModelConfig,
)
from paceline.evals.adapters.huggingface import HuggingFaceAdapter
from paceline.evals.adapters.memory import SCRATCH_BYTES
from paceline.evals.attention_config import OracleTopKConfig, as_attention
from paceline.evals.devices import DevicePool, device_names, find_gpu, list_gpus
from paceline.evals.interfaces import GenerationSpec, ModelSpec, Seat, StubScheduler, Waiting
from paceline.evals.jobs import FaultClass, classify
from paceline.evals.planning import make_stubs
from paceline.evals.scheduling import Costs, InOrder, LongestFirst, ShortestFirst


def stub(number: int, model: str = "a", expected_s: float | None = None, **more: Any) -> Waiting:
    return Waiting(number=number, model_key=model, expected_s=expected_s, **more)


def taken(scheduler: StubScheduler, seat: Seat, working: dict[str, int] | None = None) -> int | None:
    found = scheduler.take(seat, lambda _: True, working or {})
    return None if found is None else found.number


def test_the_longest_of_the_resident_model_goes_first() -> None:
    scheduler = LongestFirst()
    scheduler.add([stub(0, "a", 1), stub(1, "b", 50), stub(2, "a", 3), stub(3, "a", 2)])
    seat = Seat(device="0", resident="a")
    assert [taken(scheduler, seat) for _ in range(5)] == [2, 3, 0, 1, None]


def test_a_free_worker_takes_the_model_with_most_work_a_worker() -> None:
    scheduler = LongestFirst()
    scheduler.add([stub(0, "a", 10), stub(1, "a", 10), stub(2, "b", 15)])
    assert taken(scheduler, Seat(device="0")) == 0
    assert taken(scheduler, Seat(device="1"), {"a": 1}) == 2


def test_stubs_of_unknown_length_keep_their_order() -> None:
    scheduler = LongestFirst()
    scheduler.add(stub(number) for number in range(4))
    assert [taken(scheduler, Seat(device="0")) for _ in range(4)] == [0, 1, 2, 3]


def test_the_shortest_may_go_first() -> None:
    scheduler = ShortestFirst()
    scheduler.add([stub(0, "a", 4), stub(1, "b", 2), stub(2, "a", 1), stub(3, "a", 1), stub(4, "b", 9)])
    assert taken(scheduler, Seat(device="0")) == 2
    assert [taken(scheduler, Seat(device="0", resident="b")) for _ in range(5)] == [1, 4, 3, 0, None]


@pytest.mark.parametrize("kind", [LongestFirst, ShortestFirst, InOrder])
@given(data=st.data())
def test_every_stub_is_handed_out_once(kind: type[StubScheduler], data: st.DataObject) -> None:
    stubs = data.draw(
        st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.floats(0, 100)), min_size=1, max_size=30)
    )
    scheduler = kind()
    scheduler.add(stub(number, model, length) for number, (model, length) in enumerate(stubs))
    seen = []
    while len(scheduler):
        if data.draw(st.booleans()):
            resident = data.draw(st.none() | st.sampled_from("abc"))
            seen.append(taken(scheduler, Seat(device="0", resident=resident)))
        elif data.draw(st.booleans()):
            seen += [item.number for item in scheduler.remove(data.draw(st.sampled_from("abc")))]
        else:
            seen += [item.number for item in scheduler.remove()]
    assert sorted(number for number in seen if number is not None) == list(range(len(stubs)))


def pool(*ids: str | int, workers: int = 4, memory: int | None = None) -> DevicePool:
    sizes = {} if memory is None else {str(name): memory for name in ids}
    return DevicePool(ids, max_workers=workers, memory_bytes=sizes, look_for_gpus=False)


def test_workers_share_a_device_as_far_as_its_memory_goes() -> None:
    devices = pool(0, memory=100)
    device = devices.devices["0"]
    assert devices.fits(device, stub(0, memory_bytes=500)), "an empty device takes anything"
    device.load[1] = 60
    assert devices.fits(device, stub(0, memory_bytes=35))
    assert not devices.fits(device, stub(0, memory_bytes=36))
    assert devices.fits(device, stub(0, memory_bytes=90), 1), "its own model makes room"


def test_a_stub_that_is_to_be_alone_waits_for_an_empty_device() -> None:
    devices = pool(0, 1, memory=100)
    lonely = stub(7, alone=True)
    devices.devices["0"].load[1] = 10
    devices.reserve(lonely)
    assert devices.devices["1"].reserved_for == 7, "of two equal ones the emptier"
    assert devices.fits(devices.devices["1"], lonely) and not devices.fits(devices.devices["1"], stub(8))
    assert not devices.fits(devices.devices["0"], lonely) and devices.fits(devices.devices["0"], stub(8))
    devices.release(7)
    assert devices.fits(devices.devices["1"], stub(8))


def test_seats_are_spread_over_devices_and_bounded() -> None:
    devices = pool(0, 1, workers=3)
    seats = []
    for number in range(5):
        free = devices.with_seats()
        if free:
            seats.append(free[0].id)
            free[0].load[number] = 0
    assert seats == ["0", "1", "0"]


def test_a_removed_device_goes_when_its_last_worker_has_gone() -> None:
    devices = pool(0, 1)
    devices.devices["0"].load[1] = 0
    devices.remove("0")
    assert [device.id for device in devices.usable] == ["1"] and "0" in devices.devices
    devices.devices["0"].load.clear()
    devices.forget_removed()
    assert list(devices.devices) == ["1"]


def test_devices_are_called_as_users_call_them() -> None:
    assert device_names([0, "GPU-8f3a", "MIG-12", "cpu", "cpu"]) == [
        "0",
        "GPU-8f3a",
        "MIG-12",
        "cpu:0",
        "cpu:1",
    ]
    with pytest.raises(PacelineError, match="given twice"):
        device_names([0, "0"])
    with pytest.raises(PacelineError, match="at least one"):
        device_names([])


def test_workers_see_their_device_alone_before_anything_is_imported() -> None:
    devices = pool(3, "cpu")
    gpu = devices.devices["3"].environment(2, 8, {})
    assert gpu == {
        "CUDA_VISIBLE_DEVICES": "3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "OMP_NUM_THREADS": "4",
        "MKL_NUM_THREADS": "4",
    }
    cpu = devices.devices["cpu:0"].environment(2, 8, {"OMP_NUM_THREADS": "1"})
    assert cpu["CUDA_VISIBLE_DEVICES"] == "" and "OMP_NUM_THREADS" not in cpu


def test_a_gpu_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    executor = BenchmarkExecutor([97], 1, tmp_path / "results")
    with pytest.raises(PacelineError, match="GPU 97"):
        executor.run_benchmark_matrix(
            ["m"],
            [("dense", None)],
            [BenchmarkConfig("mock_benchmark")],
            AdapterConfig("evals_parts:NeedsGpu"),
        )
    assert not (tmp_path / "results").exists()


def test_a_model_too_large_for_company_still_runs(tmp_path: Path) -> None:
    options = ExecutorOptions(memory_bytes={"cpu": 100}, exporters=["csv"], scheduler="in_order")
    executor = BenchmarkExecutor(["cpu"], 3, tmp_path, options=options)
    results = executor.run_benchmark_matrix(
        [ModelConfig("large", memory_bytes=90), ModelConfig("huge", memory_bytes=900)],
        [("dense", None)],
        [BenchmarkConfig("evals_parts:Tasks")],
        AdapterConfig("mock"),
    )
    assert results.execution_summary["completed"] == 6
    events = (results.directory / "events.jsonl").read_text()
    running = most = 0
    for line in events.splitlines():
        running += ('"worker_started"' in line) - ('"worker_ended"' in line)
        most = max(most, running)
    assert most == 1, "two of them do not fit on one device"
    assert len((results.directory / "results.csv").read_text().splitlines()) == 7


class FakeNvml:
    """Two cards, the second of them split; stands where no driver is to be had."""

    class NVMLError(Exception):
        """As the library's."""

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"GPU-{index}abcdef"

    def nvmlDeviceGetUUID(self, handle: str) -> str:  # noqa: N802
        return handle

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:  # noqa: N802
        return SimpleNamespace(total=80 << 30 if handle.startswith("GPU") else 10 << 30)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:  # noqa: N802
        if handle == "GPU-0abcdef":
            raise self.NVMLError
        return 3

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, number: int) -> str:  # noqa: N802
        if number == 1:
            raise self.NVMLError
        return f"MIG-{number}-of-{handle}"


def test_gpus_are_found_by_index_uuid_and_mig_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.evals.devices.nvml", FakeNvml)
    known = list_gpus()
    assert [gpu.uuid for gpu in known] == [
        "GPU-0abcdef",
        "GPU-1abcdef",
        "MIG-0-of-GPU-1abcdef",
        "MIG-2-of-GPU-1abcdef",
    ]
    assert find_gpu("1", known).uuid == find_gpu("GPU-1ab", known).uuid == "GPU-1abcdef"
    assert find_gpu("MIG-2-of-GPU-1abcdef", known).memory_bytes == 10 << 30
    devices = DevicePool([0, "MIG-0-of-GPU-1abcdef"], max_workers=2)
    assert [device.memory_bytes for device in devices.usable] == [80 << 30, 10 << 30]
    with pytest.raises(PacelineError, match="GPU 2 is not there; known: 0, 1, MIG-0"):
        find_gpu("2", known)


def test_indices_count_among_the_gpus_that_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.evals.devices.nvml", FakeNvml)
    seen = {"CUDA_VISIBLE_DEVICES": "1,MIG-2-of-GPU-1abcdef"}
    devices = DevicePool([0, 1], max_workers=2, environ=seen).devices
    shown = {name: device.environment(1, 1, seen)["CUDA_VISIBLE_DEVICES"] for name, device in devices.items()}
    assert shown == {"0": "1", "1": "MIG-2-of-GPU-1abcdef"}
    assert [device.memory_bytes for device in devices.values()] == [80 << 30, 10 << 30]
    short = DevicePool(["GPU-0ab"], max_workers=1, environ={}).devices["GPU-0ab"]
    assert short.environment(1, 1, {})["CUDA_VISIBLE_DEVICES"] == "GPU-0abcdef"
    for names, message in (([2], "shows 2"), ([0, "GPU-1ab"], "the same GPU")):
        with pytest.raises(PacelineError, match=message):
            DevicePool(names, max_workers=1, environ=seen)


def save_model(directory: Path, *, dtype: str, weight_bytes: int) -> Path:
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64}
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(
        json.dumps({**sizes, "dtype": dtype, "max_position_embeddings": 1000})
    )
    (directory / "model.safetensors").write_bytes(bytes(weight_bytes))
    return directory


def test_memory_is_estimated_by_weights_and_contexts_here_and_in_the_hubs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expected(model: ModelSpec, **more: Any) -> int | None:
        """Besides what libraries take for themselves."""
        found = HuggingFaceAdapter.estimate_memory_bytes(model, GenerationSpec(**more))
        return None if found is None else found - SCRATCH_BYTES

    here = save_model(tmp_path / "here", dtype="float32", weight_bytes=40_000)
    values = 2 * 2 * 2 * 16  # keys and values, layers, heads of keys, size
    whole = expected(ModelSpec(name=str(here))) or 0
    masks_and_rows = 1000 * (1000 * 8 + 4 * (6 * 64 + 3 * 64))
    assert whole == int((40_000 + 1000 * values * 4 + masks_and_rows) * 1.1)
    half = ModelSpec(name=str(here), model_kwargs={"torch_dtype": "bfloat16"})
    request = {"max_context_length": 100}
    small, three = (expected(half, request_kwargs=request, batch_size=count) or 0 for count in (1, 3))
    assert 20_000 + 3 * 100 * values * 2 < three < 3 * small < 3 * whole / 2
    sparse = as_attention(OracleTopKConfig(heavy_size=8))
    tight, wide = (
        expected(ModelSpec(name=str(here)), attention=sparse, attention_bytes=budget) or 0
        for budget in (1 << 20, 64 << 20)
    )
    assert tight < whole < wide < whole + 1.1 * (64 << 20)
    four_bits = ModelSpec(name=str(here), model_kwargs={"quantization_config": {"load_in_4bit": True}})
    assert (expected(four_bits) or 0) == pytest.approx(whole - 1.1 * 35_000, abs=2)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    copies = tmp_path / "hub" / "models--org--model"
    save_model(copies / "snapshots" / "abc123", dtype="bfloat16", weight_bytes=500)
    assert expected(ModelSpec(name="org/model")) is None
    (copies / "refs").mkdir()
    (copies / "refs" / "main").write_text("abc123")
    assert expected(ModelSpec(name="org/model")) == expected(ModelSpec(name="org/model", revision="abc123"))
    assert (expected(ModelSpec(name="org/model")) or 0) > 500 + 1000 * values * 2
    assert expected(ModelSpec(name="org/other")) is None


@pytest.mark.parametrize(
    ("name", "message"), [("empty", "has no config.json"), ("./nowhere", "no such directory")]
)
def test_a_place_without_a_model_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    matrix = Matrix(models=[name], attentions=[("d", None)], benchmarks=[BenchmarkConfig("mock_benchmark")])
    with pytest.raises(PacelineError, match=message):
        make_stubs(matrix, tmp_path / "results")


def raised(function: Callable[[], object]) -> BaseException:
    """What a call raises, of whatever type: its class is what is asked about."""
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def wrapped(cause: BaseException) -> BaseException:
    """As libraries hand on what went wrong with a download."""

    def hand_on() -> None:
        raise OSError("we could not get the file") from cause

    return raised(hand_on)


def test_faults_of_downloads_are_known_by_their_types_however_wrapped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}"
    refused = raised(lambda: requests.get(nobody, timeout=5))
    assert classify(refused) == classify(wrapped(wrapped(refused))) == FaultClass.NETWORK
    statuses = {404: FaultClass.ERROR, 429: FaultClass.NETWORK, 503: FaultClass.NETWORK}
    for status, fault in statuses.items():
        answer = requests.Response()
        answer.status_code = status
        assert classify(wrapped(requests.HTTPError(response=answer))) is fault
    assert classify(wrapped(FileNotFoundError(2, "gone"))) is FaultClass.ERROR
    assert classify(wrapped(type("OutOfMemoryError", (RuntimeError,), {})())) is FaultClass.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("module", "name", "fault"),
    [
        ("httpx2", "ConnectTimeout", FaultClass.NETWORK),
        ("huggingface_hub.errors", "OfflineModeIsEnabled", FaultClass.ERROR),
    ],
)
def test_faults_of_packages_that_are_not_imported_for_it(module: str, name: str, fault: FaultClass) -> None:
    kind = getattr(pytest.importorskip(module), name)
    assert classify(wrapped(kind("as it were"))) is fault


def test_stubs_are_expected_to_take_as_long_as_last_time(tmp_path: Path) -> None:
    matrix = Matrix(
        models=["a", "b"],
        attentions=[("dense", None)],
        benchmarks=[BenchmarkConfig("mock_benchmark")],
        adapter=AdapterConfig("mock"),
    )
    first, second = make_stubs(matrix, tmp_path)
    costs = Costs(tmp_path)
    assert costs.expected_s(first) is None
    facts = {"asked": 5, "num_samples": 5, "execution_time_s": 12.0, "peak_memory_bytes": 7}
    costs.note(first, "model-key", facts)
    costs.note(second, "other-key", {**facts, "asked": 2, "peak_memory_bytes": None})
    costs.write()
    again = Costs(tmp_path)
    assert again.expected_s(first) == again.expected_s(second) == 12.0, (
        "of the same benchmark, if not the same stub"
    )
    assert again.peak_bytes("model-key") == 7 and again.peak_bytes("other-key") is None
    (tmp_path / ".costs.json").write_text("{}")
    assert Costs(tmp_path).expected_s(first) is None


def test_a_device_that_is_added_brings_its_workers() -> None:
    """Also where `max_concurrent_runs` left no seat: the added device would sit idle else."""
    devices = pool("cpu", workers=1)
    devices.devices["cpu:0"].load[1] = 0
    assert devices.with_seats() == ()
    assert devices.add("cpu").id == "cpu:1"
    assert [device.id for device in devices.with_seats()] == ["cpu:1"]
    with pytest.raises(PacelineError, match="in the pool already"):
        devices.add("cpu:1")
    with pytest.raises(PacelineError, match="no NVIDIA driver or GPU is here"):
        devices.add("0")
    devices.give_up("cpu:0")
    assert devices.max_workers == 1 and devices.with_seats()[0].id == "cpu:1"
    for name, message in (("cpu:7", "is not in the pool"), ("cpu:1", "is the last device")):
        with pytest.raises(PacelineError, match=message):
            devices.give_up(name)


def test_several_gpus_are_one_device_of_a_large_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.evals.devices.nvml", FakeNvml)
    assert device_names([0, 1, 2, 3], 2) == ["0,1", "2,3"]
    for ids, count in (([0, 1, 2], 2), (["cpu", "cpu"], 2)):
        with pytest.raises(PacelineError, match="gpus_per_model"):
            device_names(ids, count)
    device = DevicePool(device_names([0, 1], 2), max_workers=1, environ={}).devices["0,1"]
    assert (device.count, device.memory_bytes) == (2, 160 << 30)
    assert device.environment(1, 1, {})["CUDA_VISIBLE_DEVICES"] == "0,1"
    with pytest.raises(PacelineError, match="the same GPU"):
        DevicePool(["0,1", "GPU-1ab"], max_workers=1, environ={})
