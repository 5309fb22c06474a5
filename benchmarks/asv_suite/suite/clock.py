"""The clock of all modules: CPU time if asked for, since others may use the machine."""

import os
import time

timer = time.process_time if os.environ.get("SUITE_CPU_TIME") else time.perf_counter
