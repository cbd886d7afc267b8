#!/usr/bin/env python3
"""interrupt.py SIGNAL [hold] COMMAND...: runs it, sends the signal after half a second of its CPU time, and prints how it
ended: `exit CODE`, and `in time` where that took less than two seconds of the clock. `hold`: its input stays open."""
import os
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
begin = time.monotonic()
while process.poll() is None:
    fields = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()
    if (int(fields[11]) + int(fields[12])) / ticks > 0.5 or (hold and time.monotonic() - begin > 0.5):
        break
    time.sleep(0.02)
begin = time.monotonic()
process.send_signal(number)
code = process.wait()
print(f"exit {code if code >= 0 else 128 - code}")
# The program ends within a second; the rest is for what else this machine does.
print("in time" if time.monotonic() - begin < 2 else f"after {time.monotonic() - begin:.1f} s")
