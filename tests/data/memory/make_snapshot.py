#!/usr/bin/env python3
"""Writes snapshot.pickle: a memory snapshot as torch.cuda.memory._dump_snapshot writes it, small enough to be read by
hand, and hostile.pickle, which asks its reader to call os.system."""
import os
import pathlib
import pickle

HERE = pathlib.Path(__file__).resolve().parent
BASE = 0x7F0000000000


WITHIN = {  # what PyTorch is about
    "forward": ("_call_impl", "nn/modules/module.py"), "backward": ("backward", "autograd/__init__.py"),
    "build": ("__init__", "nn/modules/linear.py"), "step": ("_init_group", "optim/adam.py")}


def frames(line, name):
    within, file = WITHIN[name]
    return [{"name": "linear", "filename": "/usr/lib/python3/torch/nn/functional.py", "line": 100},
            {"name": within, "filename": f"/usr/lib/python3/torch/{file}", "line": 10},
            {"name": name, "filename": "/home/user/train.py", "line": line}]


def event(action, addr, size, us, line=None, name="forward"):
    return {"action": action, "addr": BASE + addr, "size": size, "stream": 0, "time_us": 1_700_000_000_000_000 + us,
            "frames": frames(line, name) if line else []}


# Parameters of 4 MB from before the history; activations of 10 and 6 MB, of which the first is freed before a
# gradient of 2 MB is allocated: the peak of 20 MB is after the second.
SNAPSHOT = {
    "segments": [{"device": 0, "address": BASE, "total_size": 24 << 20, "allocated_size": 12 << 20, "stream": 0,
                  "segment_type": "large", "blocks": [
                      {"address": BASE, "size": 4 << 20, "state": "active_allocated", "frames": frames(10, "build")},
                      {"address": BASE + (4 << 20), "size": 10 << 20, "state": "inactive", "frames": []},
                      {"address": BASE + (14 << 20), "size": 6 << 20, "state": "active_allocated",
                       "frames": frames(42, "forward")},
                      {"address": BASE + (20 << 20), "size": 2 << 20, "state": "active_allocated",
                       "frames": frames(50, "backward")},
                      {"address": BASE + (22 << 20), "size": 2 << 20, "state": "inactive", "frames": []}]}],
    "device_traces": [[
        event("segment_alloc", 0, 24 << 20, 0), event("alloc", 4 << 20, 10 << 20, 100, 41),
        event("alloc", 14 << 20, 6 << 20, 250, 42), event("free_requested", 4 << 20, 10 << 20, 400),
        event("free_completed", 4 << 20, 10 << 20, 401), event("alloc", 20 << 20, 2 << 20, 500, 50, "backward")]],
    "allocator_settings": {"expandable_segments": False, "garbage_collection_threshold": 0.0},
}


class Call:
    def __reduce__(self):
        return os.system, ("touch executed",)


if __name__ == "__main__":
    (HERE / "snapshot.pickle").write_bytes(pickle.dumps(SNAPSHOT, protocol=4))
    (HERE / "hostile.pickle").write_bytes(pickle.dumps({"segments": [Call()]}, protocol=4))
