"""What makes the same work take different times: settings of the system, other programs, and how much it does so."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from paceline.doctor.machine import Level, Machine, Remark, level_of, remark
from paceline.doctor.noise import Noise
from paceline.numbers import digits, duration, percent, size

CPU = "sys/devices/system/cpu"
CLOCK = "sys/devices/system/clocksource/clocksource0"
SWAP_WORTH_A_NOTE = 64 << 20
NOTED_LOAD, HIGH_LOAD = 0.1, 0.5
"""Shares of the CPUs that others already use."""
NOTED_PRESSURE_PCT, HIGH_PRESSURE_PCT = 1.0, 10.0
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies"})
QUIET_PCT, NOISY_PCT = 2.0, 10.0
"""Spreads at which a change of a few percent takes a handful of repetitions, and at which it drowns."""
NOTED_LATE_S, LATE_S = 0.001, 0.01
COARSE_CLOCK_S = 1e-5
NOTED_SHARE_PCT, HIGH_SHARE_PCT = 1.0, 5.0

_BUSY = "ps -eo pcpu,pid,args --sort=-pcpu | head"
_PRESSURES = {
    "cpu": ("a CPU", _BUSY),
    "memory": ("memory", "ps -eo rss,pid,args --sort=-rss | head"),
    "io": ("a disk", "sudo iotop --only --iter=3"),
}
_Source = TypeVar("_Source")


class Reading(NamedTuple):
    """What was read; `words` fill in what a row's texts leave open."""

    level: Level
    value: str
    words: Mapping[str, str] = {}


class Row(NamedTuple, Generic[_Source]):
    """A row of a table of things to look at: how it is read, what it means if it is fine or not, and what to do then.

    `read` gives None where there is nothing to say.
    """

    read: Callable[[_Source], Reading | None]
    good: str
    bad: str
    fix: str = ""


def look_at(source: _Source, table: Mapping[str, Row[_Source]]) -> Iterator[Remark]:
    """The remarks of the rows that have something to say, under the rows' names."""
    for name, row in table.items():
        reading = row.read(source)
        if reading is not None:
            level, value, words = reading
            meaning, fix = (row.good, "") if level == "ok" else (row.bad, row.fix)
            yield remark(name, level, value, meaning.format(**words), fix.format(**words))


def _governor(machine: Machine) -> Reading | None:
    governors = set(machine.texts(f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor").values())
    level: Level = "ok" if governors <= {"performance"} else "warn"
    return Reading(level, ", ".join(sorted(governors))) if governors else None


def _turbo(machine: Machine) -> Reading | None:
    for path, off in ((f"{CPU}/intel_pstate/no_turbo", "1"), (f"{CPU}/cpufreq/boost", "0")):
        text = machine.read(path)
        if text in ("0", "1"):
            return Reading("ok", "off") if text == off else Reading("note", "on", {"off": off, "path": path})
    return None


def _load(machine: Machine) -> Reading | None:
    match, cpus = re.match(r"(\d+\.\d+) ", machine.read("proc/loadavg")), machine.cpus
    if not match or not cpus:
        return None
    return Reading(level_of(float(match[1]) / cpus, NOTED_LOAD, HIGH_LOAD), f"{match[1]} on {cpus} CPUs")


def _pressure(machine: Machine) -> Reading | None:
    shares = {
        name: float(match[1])
        for name in _PRESSURES
        if (match := re.search(r"some avg10=([\d.]+)", machine.read(f"proc/pressure/{name}")))
    }
    if not shares:
        return None
    name, highest = max(shares.items(), key=lambda item: item[1])
    value = ", ".join(f"{name} {_percent(share)}" for name, share in shares.items())
    level = level_of(highest, NOTED_PRESSURE_PCT, HIGH_PRESSURE_PCT)
    awaited, fix = _PRESSURES[name]
    return Reading(level, value, {"share": digits(highest), "awaited": awaited, "fix": fix})


def _swap(machine: Machine) -> Reading | None:
    total, free = machine.kib("SwapTotal"), machine.kib("SwapFree")
    if total is None or free is None:
        return None
    used = total - free
    if used < SWAP_WORTH_A_NOTE:
        return Reading("ok", f"{size(used)} in use")
    return Reading("warn", f"{size(used)} of {size(total)} in use")


def _huge_pages(machine: Machine) -> Reading | None:
    match = re.search(r"\[(\w+)\]", machine.read("sys/kernel/mm/transparent_hugepage/enabled"))
    return Reading("note" if match[1] == "always" else "ok", match[1]) if match else None


def _address_space(machine: Machine) -> Reading | None:
    number = machine.number("proc/sys/kernel/randomize_va_space")
    if number is None:
        return None
    differ = "differ from run to run, and with them some times; repeat: evens it out, setarch -R stops it"
    return Reading("ok", str(number), {"do": differ if number else "are the same in each run"})


def _clock(machine: Machine) -> Reading | None:
    name = machine.read(f"{CLOCK}/current_clocksource")
    if name not in SLOW_CLOCKS:
        return Reading("ok", name) if name else None
    has_better = "tsc" in machine.read(f"{CLOCK}/available_clocksource").split()
    fix = f"echo tsc | sudo tee /{CLOCK}/current_clocksource" if has_better else ""
    return Reading("warn", name, {"fix": fix})


def _heat(machine: Machine) -> Reading | None:
    texts = machine.texts(f"{CPU}/cpu[0-9]*/thermal_throttle/core_throttle_count").values()
    most = max((int(text) for text in texts if text.isdecimal()), default=None)
    if most is None:
        return None
    return Reading("note", f"throttled {most} times") if most else Reading("ok", "never throttled")


def _power(machine: Machine) -> Reading | None:
    kinds = machine.texts("sys/class/power_supply/*/type")
    batteries = [path.removesuffix("/type") for path, kind in kinds.items() if kind == "Battery"]
    # A mouse has a battery too; it says so.
    own = [path for path in batteries if machine.read(f"{path}/scope") != "Device"]
    if not own:
        return None
    draining = [path for path in own if machine.read(f"{path}/status") == "Discharging"]
    if not draining:
        return Reading("ok", "mains")
    percent = machine.read(f"{draining[0]}/capacity")
    return Reading("warn", f"battery, {percent} %" if percent else "battery")


def _virtual(machine: Machine) -> Reading | None:
    flags = machine.field("proc/cpuinfo", "flags").split()
    if not flags:
        return None
    return Reading("note", "yes") if "hypervisor" in flags else Reading("ok", "no")


def _smt(machine: Machine) -> Reading | None:
    return {"0": Reading("ok", "off"), "1": Reading("note", "on")}.get(machine.read(f"{CPU}/smt/active"))


SETTINGS: dict[str, Row[Machine]] = {
    "governor": Row(
        _governor,
        "the clock does not follow the load",
        "the clock follows the load, so that the same work takes different times",
        "sudo cpupower frequency-set --governor performance",
    ),
    "turbo": Row(
        _turbo,
        "the clock stays put",
        "the clock depends on heat and on how many cores are busy",
        "echo {off} | sudo tee /{path}",
    ),
    "SMT": Row(
        _smt,
        "a core does one thing at a time",
        "two threads share a core, and slow each other down",
        f"echo off | sudo tee /{CPU}/smt/control",
    ),
    "load": Row(_load, "nothing else runs", "other programs take turns with what is measured", _BUSY),
    "pressure": Row(
        _pressure,
        "nobody waits",
        "for {share} % of the last ten seconds something waited for {awaited}",
        "{fix}",
    ),
    "swap": Row(
        _swap,
        "memory is not on disk",
        "what was moved to disk comes back at a bad moment",
        "sudo swapoff -a && sudo swapon -a",
    ),
    "huge pages": Row(
        _huge_pages,
        "programs get huge pages only where they ask for them",
        "whether memory comes in huge pages depends on how fragmented it is",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    "ASLR": Row(_address_space, "addresses {do}", ""),
    "clock": Row(_clock, "reading the time is cheap", "reading the time is slow and coarse", "{fix}"),
    "heat": Row(
        _heat,
        "the CPU has not been too hot since it was started",
        "the CPU slowed down since it was started, for being too hot",
        "sensors",
    ),
    "power": Row(_power, "the battery does not decide the clock", "the machine saves power: plug it in"),
    "virtual": Row(
        _virtual,
        "the machine is not shared with other virtual ones",
        "neighbours on the same host can slow it down; compare results of the same night and machine",
    ),
}


def look(machine: Machine) -> Iterator[Remark]:
    """Everything that the system says; what it does not say is named once."""
    remarks = list(look_at(machine, SETTINGS))
    yield from remarks
    silent = SETTINGS.keys() - {one.name for one in remarks} - {"power"}  # most machines have no battery
    if silent:
        meaning = "this system, or this container, does not say; nobody can tell from here"
        yield remark("not told", "note", ", ".join(name for name in SETTINGS if name in silent), meaning)


def _spread(noise: Noise) -> Reading:
    level = level_of(noise.spread_pct, QUIET_PCT, NOISY_PCT)
    work = f"{noise.samples} × {duration(noise.chunk_s)}"
    value = f"±{_percent(noise.spread_pct)} for nine in ten ({work}, slowest +{_percent(noise.slowest_pct)})"
    return Reading(level, value, {"hidden": _percent(2 * noise.spread_pct)})


def _share(percent: float | None) -> Reading | None:
    if percent is None:
        return None
    return Reading(level_of(percent, NOTED_SHARE_PCT, HIGH_SHARE_PCT), _percent(percent))


def _wake(noise: Noise) -> Reading:
    value = f"{duration(noise.late_median_s)} late, one time in a hundred {duration(noise.late_p99_s)}"
    return Reading(level_of(noise.late_p99_s, NOTED_LATE_S, LATE_S), value)


def _timer(noise: Noise) -> Reading:
    level = level_of(noise.clock_step_s, COARSE_CLOCK_S, 100 * COARSE_CLOCK_S)
    return Reading(level, duration(noise.clock_step_s))


def _percent(value: float) -> str:
    return percent(value / 100)


_WAITING = "the share of the time in which another program had our CPU"
_STOLEN = "the share of the time in which the host served other machines"
_TIMER = "the shortest time that can be told apart"
NOISE: dict[str, Row[Noise]] = {
    "spread": Row(
        _spread,
        "the same work takes the same time",
        "the same work differs: a change below about {hidden} takes many repetitions",
        "raise repeat: in the suite, and see the section machine",
    ),
    "waiting": Row(lambda noise: _share(noise.off_cpu_pct), _WAITING, _WAITING, _BUSY),
    "stolen": Row(lambda noise: _share(noise.steal_pct), _STOLEN, _STOLEN),
    "waking up": Row(
        _wake,
        "a program that waits is woken soon",
        "a program that waits is woken late: times of requests and locks carry it",
        _BUSY,
    ),
    "timer": Row(_timer, _TIMER, _TIMER, "measure longer pieces of work"),
}


def judge_noise(noise: Noise) -> Iterator[Remark]:
    """What the measured noise means for those who measure here."""
    return look_at(noise, NOISE)
