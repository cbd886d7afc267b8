#!/usr/bin/env python3
"""interrupt.py SIGNAL [hold] COMMAND...: runs it, sends the signal after half a second of its CPU time, and prints how it
ended: `exit CODE`, and `in time` where that took less than a second of its CPU time and ten of the clock, which other
work of this machine lengthens. `hold`: its input stays open."""
import os
import resource
import signal
import subprocess
import sys
import time

number = getattr(signal, "SIG" + sys.argv[1])
hold = sys.argv[2] == "hold"
command = sys.argv[3 if hold else 2:]
process = subprocess.Popen(command, stdin=subprocess.PIPE if hold else subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
ticks = os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    if process.poll() is not None:
        return 0.0
    fields = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks


begin = time.monotonic()
while process.poll() is None:
    if cpu_seconds() > 0.5 or (hold and time.monotonic() - begin > 0.5):
        break
    time.sleep(0.02)
used, begin = cpu_seconds(), time.monotonic()
process.send_signal(number)
code = process.wait()
print(f"exit {code if code >= 0 else 128 - code}")
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu, elapsed = usage.ru_utime + usage.ru_stime - used, time.monotonic() - begin
print("in time" if cpu < 1 and elapsed < 10 else f"after {cpu:.1f} s of CPU time, {elapsed:.1f} s elapsed")
