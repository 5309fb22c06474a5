"""What makes the same work take different times: the clock, the neighbours, memory, the power supply."""

import re
from collections.abc import Callable, Iterator

from paceline.doctor.machine import Machine
from paceline.doctor.remarks import Level, Remark, remark
from paceline.report.format import size

CPU = "sys/devices/system/cpu"
SWAP_WORTH_A_NOTE = 64 << 20
NOTED_LOAD, HIGH_LOAD = 0.1, 0.5
"""Shares of the CPUs that others already use."""
NOTED_PRESSURE_PCT, HIGH_PRESSURE_PCT = 1.0, 10.0
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies"})

Look = Callable[[Machine], Iterator[Remark]]


def governor(machine: Machine) -> Iterator[Remark]:
    found = set(machine.texts(f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor").values())
    if not found:
        return
    fixed = found <= {"performance"}
    yield remark(
        "governor",
        "ok" if fixed else "warn",
        ", ".join(sorted(found)),
        "the clock does not follow the load"
        if fixed
        else "the clock follows the load, so that the same work takes different times",
        "" if fixed else "sudo cpupower frequency-set --governor performance",
    )


def turbo(machine: Machine) -> Iterator[Remark]:
    for path, off in ((f"{CPU}/intel_pstate/no_turbo", "1"), (f"{CPU}/cpufreq/boost", "0")):
        text = machine.read(path)
        if text in ("0", "1"):
            yield _turbo(path, is_on=text != off, off=off)
            return


def _turbo(path: str, *, is_on: bool, off: str) -> Remark:
    meaning = "the clock depends on heat and on how many cores are busy" if is_on else "the clock stays put"
    fix = f"echo {off} | sudo tee /{path}" if is_on else ""
    return remark("turbo", "note" if is_on else "ok", "on" if is_on else "off", meaning, fix)


def load(machine: Machine) -> Iterator[Remark]:
    match = re.match(r"(\d+\.\d+) ", machine.read("proc/loadavg"))
    cpus = machine.cpus
    if not match or not cpus:
        return
    share = float(match[1]) / cpus
    level: Level = "warn" if share >= HIGH_LOAD else "note" if share >= NOTED_LOAD else "ok"
    meaning = "nothing else runs" if level == "ok" else "other programs take turns with what is measured"
    fix = "" if level == "ok" else "ps -eo pcpu,pid,args --sort=-pcpu | head"
    yield remark("load", level, f"{match[1]} on {cpus} CPUs", meaning, fix)


def swap(machine: Machine) -> Iterator[Remark]:
    total, free = machine.kib("SwapTotal"), machine.kib("SwapFree")
    if total is None or free is None:
        return
    used = total - free
    if used < SWAP_WORTH_A_NOTE:
        yield remark("swap", "ok", size(used) + " in use", "memory is not on disk")
        return
    yield remark(
        "swap",
        "warn",
        f"{size(used)} of {size(total)} in use",
        "what was moved to disk comes back at a bad moment",
        "sudo swapoff -a && sudo swapon -a",
    )


def pressure(machine: Machine) -> Iterator[Remark]:
    shares = {
        name: float(match[1])
        for name in ("cpu", "memory", "io")
        if (match := re.search(r"some avg10=([\d.]+)", machine.read(f"proc/pressure/{name}")))
    }
    if not shares:
        return
    name, highest = max(shares.items(), key=lambda item: item[1])
    level: Level = (
        "warn" if highest >= HIGH_PRESSURE_PCT else "note" if highest >= NOTED_PRESSURE_PCT else "ok"
    )
    value = ", ".join(f"{name} {share:.3g} %" for name, share in shares.items())
    meaning = (
        "nobody waits"
        if level == "ok"
        else f"for {highest:.3g} % of the last ten seconds something waited for {_AWAITED[name]}"
    )
    yield remark("pressure", level, value, meaning, "" if level == "ok" else _PRESSURE_FIXES[name])


_AWAITED = {"cpu": "a CPU", "memory": "memory", "io": "a disk"}
_PRESSURE_FIXES = {
    "cpu": "ps -eo pcpu,pid,args --sort=-pcpu | head",
    "memory": "ps -eo rss,pid,args --sort=-rss | head",
    "io": "sudo iotop --only --iter=3",
}


def smt(machine: Machine) -> Iterator[Remark]:
    text = machine.read(f"{CPU}/smt/active")
    if text not in ("0", "1"):
        return
    if text == "0":
        yield remark("SMT", "ok", "off", "a core does one thing at a time")
        return
    meaning = "two threads share a core, and slow each other down"
    yield remark("SMT", "note", "on", meaning, f"echo off | sudo tee /{CPU}/smt/control")


def huge_pages(machine: Machine) -> Iterator[Remark]:
    match = re.search(r"\[(\w+)\]", machine.read("sys/kernel/mm/transparent_hugepage/enabled"))
    if not match:
        return
    level: Level = "note" if match[1] == "always" else "ok"
    meaning = (
        "whether memory comes in huge pages depends on how fragmented it is"
        if level == "note"
        else "programs get huge pages only where they ask for them"
    )
    fix = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" if level == "note" else ""
    yield remark("huge pages", level, match[1], meaning, fix)


def address_space(machine: Machine) -> Iterator[Remark]:
    number = machine.number("proc/sys/kernel/randomize_va_space")
    if number is None:
        return
    meaning = (
        "addresses differ from run to run, and with them some times; repeat: evens it out, setarch -R stops it"
        if number
        else "addresses are the same in each run"
    )
    yield remark("ASLR", "ok", str(number), meaning)


def clock_source(machine: Machine) -> Iterator[Remark]:
    place = "sys/devices/system/clocksource/clocksource0"
    name = machine.read(f"{place}/current_clocksource")
    if not name:
        return
    if name not in SLOW_CLOCKS:
        yield remark("clock", "ok", name, "reading the time is cheap")
        return
    better = next((one for one in machine.read(f"{place}/available_clocksource").split() if one == "tsc"), "")
    fix = f"echo {better} | sudo tee /{place}/current_clocksource" if better else ""
    yield remark("clock", "warn", name, "reading the time is slow and coarse", fix)


def heat(machine: Machine) -> Iterator[Remark]:
    texts = machine.texts(f"{CPU}/cpu[0-9]*/thermal_throttle/core_throttle_count")
    counts = [int(text) for text in texts.values() if text.isdecimal()]
    if not counts:
        return
    if not max(counts):
        yield remark("heat", "ok", "never throttled", "the CPU has not been too hot since it was started")
        return
    meaning = "the CPU slowed down since it was started, for being too hot"
    yield remark("heat", "note", f"throttled {max(counts)} times", meaning, "sensors")


def power(machine: Machine) -> Iterator[Remark]:
    kinds = machine.texts("sys/class/power_supply/*/type")
    batteries = [path.removesuffix("/type") for path, kind in kinds.items() if kind == "Battery"]
    # A mouse has a battery too; it says so.
    own = [path for path in batteries if machine.read(f"{path}/scope") != "Device"]
    if not own:
        return
    draining = [path for path in own if machine.read(f"{path}/status") == "Discharging"]
    if not draining:
        yield remark("power", "ok", "mains", "the battery does not decide the clock")
        return
    percent = machine.read(f"{draining[0]}/capacity")
    value = f"battery, {percent} %" if percent else "battery"
    yield remark("power", "warn", value, "the machine saves power: plug it in")


def virtual(machine: Machine) -> Iterator[Remark]:
    flags = machine.field("proc/cpuinfo", "flags").split()
    if not flags:
        return
    if "hypervisor" in flags:
        meaning = (
            "neighbours on the same host can slow it down; compare results of the same night and machine"
        )
        yield remark("virtual", "note", "yes", meaning)
    else:
        yield remark("virtual", "ok", "no", "the machine is not shared with other virtual ones")


LOOKS: dict[str, Look] = {
    "governor": governor,
    "turbo": turbo,
    "SMT": smt,
    "load": load,
    "pressure": pressure,
    "swap": swap,
    "huge pages": huge_pages,
    "ASLR": address_space,
    "clock": clock_source,
    "heat": heat,
    "power": power,
    "virtual": virtual,
}


def look(machine: Machine) -> Iterator[Remark]:
    """Everything that the system tells; what it does not tell is named once."""
    untold = []
    for name, one in LOOKS.items():
        found = list(one(machine))
        yield from found
        if not found and name != "power":  # most machines have no battery
            untold.append(name)
    if untold:
        meaning = "this system, or this container, does not say; nobody can tell from here"
        yield remark("not told", "note", ", ".join(untold), meaning)
