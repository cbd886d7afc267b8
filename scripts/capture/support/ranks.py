"""Starting and finding ranks: under torchrun, or as processes of this one (--ranks N)."""
import datetime
import os
import socket
import sys
import threading
import time

from support.device import pick_device
from support.run import Refusal, import_torch

STARTED_HERE = "FORETRACE_RANK_STARTED_HERE"  # in the environment of ranks that `start` started


class Ranks:
    """Where this process stands among the others; one rank and no process group without torchrun."""

    def __init__(self, device_name, need_group=False):
        torch = import_torch()
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.local_world = int(os.environ.get("LOCAL_WORLD_SIZE", str(self.world)))
        self.device = pick_device(device_name, self.local_rank)
        self.backend = "nccl" if self.device.type == "cuda" else "gloo"
        self.group = self.world > 1 or need_group
        if not self.group:
            return
        if not torch.distributed.is_available():
            raise Refusal("this PyTorch has no distributed package; run one rank without torchrun")
        if self.backend == "nccl" and not torch.distributed.is_nccl_available():
            raise Refusal("this PyTorch has no NCCL; ranks on GPUs need it")
        torch.distributed.init_process_group(self.backend, timeout=datetime.timedelta(minutes=5))

    def barrier(self):
        if self.group:
            torch = import_torch()
            if self.backend == "nccl":
                torch.distributed.barrier(device_ids=[self.local_rank])
            else:
                torch.distributed.barrier()

    def gather(self, value):
        """Every rank's `value` (any picklable object), in rank order, on every rank."""
        if not self.group:
            return [value]
        values = [None] * self.world
        import_torch().distributed.all_gather_object(values, value)
        return values

    def close(self):
        if not self.group:
            return
        if STARTED_HERE in os.environ:
            self.barrier()  # these end without taking the group down, see _run_rank
        else:
            import_torch().distributed.destroy_process_group()


def _end_with_parent():
    """Ends this process when its parent is gone: a rank left over would wait for the others forever."""
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()


def _run_rank(local_rank, world, port, device_name, body, options):
    _end_with_parent()
    os.environ.update(RANK=str(local_rank), LOCAL_RANK=str(local_rank), WORLD_SIZE=str(world),
                      LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ[STARTED_HERE] = "1"
    if device_name == "cpu":
        import_torch().set_num_threads(1)
    body(options)
    # The thread behind rank 0's store may spin for ever when PyTorch 1.13 takes it down.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def start(body, options):
    """Calls `body(options)` in this process under torchrun or for one rank, else in --ranks N
    processes of this machine."""
    count = getattr(options, "ranks", 1)
    if "RANK" in os.environ or count <= 1:
        if count > 1 and int(os.environ.get("WORLD_SIZE", "1")) != count:
            raise Refusal("--ranks %d contradicts torchrun's %s processes; give one of them" %
                          (count, os.environ.get("WORLD_SIZE")))
        return body(options)
    torch = import_torch()
    if options.device == "cuda":
        pick_device("cuda", count - 1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    import torch.multiprocessing as processes
    try:
        processes.spawn(_run_rank, (count, port, options.device, body, options), nprocs=count)
    except processes.ProcessRaisedException as error:
        raise Refusal("a rank failed: %s" % str(error).strip().split("\n")[-1]) from error
    except processes.ProcessExitedException as error:
        raise Refusal("a rank ended early: %s" % error) from error
    return 0
