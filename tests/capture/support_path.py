"""Finds the capture scripts and a Python with PyTorch for the tests beside this file."""
import atexit
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = os.path.join(ROOT, "scripts", "capture")
sys.path.insert(0, SCRIPTS)


def _find_python():
    """This Python, else Debian's, whichever imports PyTorch; None where neither does."""
    for python in (os.environ.get("FORETRACE_TORCH_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and os.path.exists(python):
            probe = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
            if probe.returncode == 0:
                return python
    return None


TORCH_PYTHON = _find_python()
NO_TORCH = "PyTorch is not installed; apt-get install python3-torch"


# Importing PyTorch takes seconds: one process imports it and forks for every script.
_SERVER = """
import json, os, runpy, sys
import torch
def call(request):
    os.dup2(os.open(request["stderr"], os.O_WRONLY | os.O_CREAT), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ.update(request["env"])
    sys.argv = [request["script"]] + request["arguments"]
    sys.path.insert(0, os.path.dirname(os.path.abspath(request["script"])))
    try:
        runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else (1 if end.code else 0)
    except BaseException:
        import traceback
        traceback.print_exc()
        code = 1
    else:
        code = 0
    sys.stderr.flush()
    os._exit(code)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        call(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
_servers = []


def _server():
    if not _servers:
        _servers.append(subprocess.Popen([TORCH_PYTHON, "-c", _SERVER], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True,
                                         env=dict(os.environ, OMP_NUM_THREADS="1")))
        atexit.register(_stop)
    return _servers[0]


def _stop():
    server = _servers.pop()
    server.stdin.close()
    server.stdout.close()
    server.wait(timeout=60)


def run(script, *arguments, env=None):
    """Runs a capture script under the Python with PyTorch; (exit code, standard error)."""
    server = _server()
    with tempfile.NamedTemporaryFile("r", suffix=".stderr") as errors:
        request = {"script": os.path.join(SCRIPTS, script), "arguments": [str(a) for a in arguments],
                   "stderr": errors.name, "env": env or {}}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return code, errors.read()


def run_alone(script, *arguments, env=None):
    """Runs a capture script under this Python, in a process of its own; (exit code, standard error)."""
    done = subprocess.run([sys.executable, os.path.join(SCRIPTS, script)] + [str(a) for a in arguments],
                          capture_output=True, text=True, timeout=240, check=False,
                          env=dict(os.environ, **(env or {})))
    return done.returncode, done.stderr
