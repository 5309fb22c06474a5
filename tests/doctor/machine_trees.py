"""Files in which machines tell about themselves, as trees to be written into a directory."""

from collections.abc import Mapping
from pathlib import Path

CPU = "sys/devices/system/cpu"

QUIET_SERVER = {
    "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme\n\nprocessor\t: 1\nflags\t\t: fpu vme\n",
    "proc/loadavg": "0.03 0.02 0.00 1/200 4242\n",
    "proc/meminfo": "MemTotal: 32000000 kB\nMemAvailable: 30000000 kB\nSwapTotal: 2000000 kB\nSwapFree: 2000000 kB\n",
    "proc/pressure/cpu": "some avg10=0.10 avg60=0.00 avg300=0.00 total=1\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00\n",
    "proc/pressure/io": "some avg10=0.20 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00\n",
    "proc/self/cgroup": "0::/user.slice\n",
    "proc/self/stat": "77 (a) b) R 1 77 77 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 1 0 9 9 9\n",
    "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-1\n",
    "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    f"{CPU}/online": "0-1\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "0\n",
    f"{CPU}/intel_pstate/no_turbo": "1\n",
    f"{CPU}/smt/active": "0\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}
LAPTOP = {
    **QUIET_SERVER,
    "proc/loadavg": "3.50 2.00 1.00 4/900 4242\n",
    "proc/meminfo": "MemTotal: 8000000 kB\nSwapTotal: 2000000 kB\nSwapFree: 500000 kB\n",
    "proc/pressure/io": "some avg10=23.50 avg60=0.00 avg300=0.00 total=7\n",
    "proc/self/stat": "77 (python) R 1 77 77 0 -1 4194304 1 0 0 0 1 1 0 0 30 10 1 0 9 9 9\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave\n",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "12\n",
    f"{CPU}/intel_pstate/no_turbo": "0\n",
    f"{CPU}/smt/active": "1\n",
    "sys/class/power_supply/AC/type": "Mains\n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/class/power_supply/BAT0/status": "Discharging\n",
    "sys/class/power_supply/BAT0/capacity": "41\n",
    "sys/class/power_supply/hidpp_battery_0/type": "Battery\n",
    "sys/class/power_supply/hidpp_battery_0/scope": "Device\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
}
CONTAINER = {
    **QUIET_SERVER,
    ".dockerenv": "",
    "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor\n",
    "proc/self/cgroup": "0::/\n",
    "proc/self/status": "Cpus_allowed_list:\t0\n",
    f"{CPU}/online": "0-7\n",
    "sys/fs/cgroup/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/cpu.stat": "usage_usec 5\nnr_periods 200\nnr_throttled 150\n",
    "sys/fs/cgroup/memory.max": "1073741824\n",
    "sys/fs/cgroup/memory.current": "1063741824\n",
    "sys/fs/cgroup/memory.events": "low 0\noom 2\noom_kill 2\n",
}


def write_machine(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
