"""The device that is measured: choosing it, naming it, its facts and its precision modes."""
import os
import platform as host
import re
import subprocess
import warnings

from support.run import Refusal, import_torch

# Names that calibration files use; other GPUs get a slug of the vendor's name.
_KNOWN = (
    (r"H200", "h200-sxm5"), (r"H100.*(HBM3|SXM)", "h100-sxm5"), (r"H100.*PCIe", "h100-pcie"),
    (r"A100-SXM4-80", "a100-sxm4-80gb"), (r"A100-SXM4", "a100-sxm4"),
    (r"A100.*PCIE", "a100-pcie"), (r"V100-SXM2", "v100-sxm2"), (r"V100-PCIE", "v100-pcie"),
    (r"P100-PCIE", "p100-pcie"),
)


def pick_device(name, local_rank=0, cpu_helps=True):
    """The torch.device to measure; refuses where a GPU is asked for and none is there.  `cpu_helps`:
    whether the refusal may advise --device cpu."""
    torch = import_torch()
    if name == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Refusal("no CUDA device is available to PyTorch %s; run on a machine with a GPU%s" % (
            torch.__version__, ", or give --device cpu to try the script out" if cpu_helps else ""))
    if local_rank >= torch.cuda.device_count():
        raise Refusal("local rank %d has no GPU: %d here; start fewer processes" %
                      (local_rank, torch.cuda.device_count()))
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def need_gpu(name, what):
    """Refuses where `what` exists on GPUs alone."""
    if name == "cpu":
        raise Refusal("%s exist only on a GPU; --device cpu cannot measure them" % what)


def _cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return host.processor() or host.machine()


def _nvidia_smi(device):
    """Driver, clocks and power limit from nvidia-smi; empty where it does not answer."""
    fields = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem",
              "power.limit", "temperature.gpu", "persistence_mode")
    try:
        out = subprocess.run(
            ["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits",
             "--id=%d" % device.index], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [v.strip() for v in out.stdout.strip().split("\n")[0].split(",")]
    return dict(zip(fields, values)) if len(values) == len(fields) else {}


def l2_bytes(device):
    """L2 capacity in bytes; 64 MiB (more than any GPU before Blackwell but the largest) if unknown."""
    torch = import_torch()
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "L2_cache_size", 0)) or 64 << 20


def device_facts(device):
    """What the provenance says of the device, as a dict of plain values."""
    torch = import_torch()
    if device.type == "cpu":
        return {"name": _cpu_model(), "type": "cpu", "cores": os.cpu_count(),
                "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(device)
    facts = {"name": properties.name, "type": "cuda", "memory_bytes": properties.total_memory,
             "capability": "%d.%d" % (properties.major, properties.minor),
             "multiprocessors": properties.multi_processor_count, "l2_bytes": l2_bytes(device),
             "count": torch.cuda.device_count()}
    facts.update(_nvidia_smi(device))
    return facts


def versions():
    """Versions of everything that runs under a measurement."""
    torch = import_torch()
    found = {"python": host.python_version(), "torch": torch.__version__}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if getattr(torch.version, "hip", None):
        found["hip"] = torch.version.hip
    if torch.cuda.is_available():
        try:
            found["cudnn"] = str(torch.backends.cudnn.version())
            found["nccl"] = ".".join(str(v) for v in torch.cuda.nccl.version())
        except (AttributeError, RuntimeError, TypeError):
            pass
    return found


def library_name():
    """First part of the library column: PyTorch and CUDA version."""
    torch = import_torch()
    name = "torch-" + str(torch.__version__)
    if torch.version.cuda and "cu" not in name:
        name += "+cu" + torch.version.cuda
    return name


def platform_name(device, given=""):
    """Name in the platform column."""
    if given:
        return given
    if device.type == "cpu":
        return "cpu"
    torch = import_torch()
    name = torch.cuda.get_device_properties(device).name
    for pattern, known in _KNOWN:
        if re.search(pattern, name):
            return known
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def provenance(device, options, source, extra=None):
    """The '# key: value' lines of a table."""
    from support.run import command_line, now_text
    facts = device_facts(device)
    lines = {"source": source, "command": command_line(), "date": now_text(),
             "platform": platform_name(device, options.platform),
             "device": facts["name"], "driver": facts.get("driver_version", "-"),
             "libraries": " ".join("%s=%s" % item for item in sorted(versions().items())),
             "device_facts": " ".join("%s=%s" % (k, str(v).replace(" ", "_"))
                                      for k, v in facts.items()),
             "seed": options.seed, "licence": options.licence}
    lines.update(extra or {})
    return lines


def supported_precisions(device):
    """Precisions that the device has units for; others would measure an emulation."""
    if device.type == "cpu":
        return ("float32", "bfloat16")
    torch = import_torch()
    major = torch.cuda.get_device_capability(device)[0]
    if major >= 8:
        return ("float32", "tf32", "float16", "bfloat16")
    return ("float32", "float16") if major >= 6 else ("float32",)


def torch_dtype(name):
    """The tensor type of a dtype column value; tf32 is a mode of float32."""
    torch = import_torch()
    return {"float32": torch.float32, "tf32": torch.float32, "float16": torch.float16,
            "bfloat16": torch.bfloat16, "int64": torch.int64, "uint8": torch.uint8}[name]


def set_tf32(enabled):
    """Turns TF32 on or off for GEMMs and convolutions, in every PyTorch since 1.12."""
    torch = import_torch()
    with warnings.catch_warnings():  # newer versions announce a successor of these switches
        warnings.simplefilter("ignore")
        torch.set_float32_matmul_precision("high" if enabled else "highest")
        torch.backends.cudnn.allow_tf32 = enabled
