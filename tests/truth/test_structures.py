"""Recordings of unusual but valid structure: each is imported, replayed to its recorded step, and predicted
from models, or refused in one line."""

import json
import os
import subprocess
import tempfile
import unittest

from predictions import FORETRACE

ADD = ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
       "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)")
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
REDUCE = ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
          "at::native::sum_functor<float, float, float> >, unsigned int, float, 4> >")
STEP_US, KERNELS = 2000, 20
A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85097971712, "computeMajor": 8, "computeMinor": 0,
        "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536,
        "regsPerMultiprocessor": 65536, "warpSize": 32, "sharedMemPerBlock": 49152,
        "sharedMemPerMultiprocessor": 167936, "numSms": 108, "sharedMemPerBlockOptin": 166912}


class Recording:
    """One process of a profile: steps of operators that launch a kernel each, then a wait for the device."""

    def __init__(self, steps=4, thread=100, device=0, stream=7, launch="cudaLaunchKernel", begin=1000):
        self.events, self.correlation = [], 0
        self.thread, self.device, self.stream, self.launch = thread, device, stream, launch
        for step in range(steps):
            at = begin + step * STEP_US
            self.add("user_annotation", f"ProfilerStep#{step + 1}", at, STEP_US - 2)
            for i in range(KERNELS):
                self.operator(at + 10 + 50 * i, i)
            self.correlation += 1
            self.add("cuda_runtime", "cudaDeviceSynchronize", at + 20 + 50 * KERNELS, 20, correlation=self.correlation)

    def add(self, category, name, ts, dur, **args):
        on_device = category in ("kernel", "gpu_memcpy", "gpu_memset")
        event = {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "args": args,
                 "pid": self.device if on_device else self.thread,
                 "tid": args.get("stream", self.stream) if on_device else self.thread}
        self.events.append(event)
        return event

    def kernel(self, name, ts, dur, correlation, **more):
        return self.add("kernel", name, ts, dur, device=self.device, stream=self.stream, correlation=correlation,
                        **{"grid": [432, 1, 1], "block": [128, 1, 1], "blocks per SM": 4.0, "warps per SM": 16.0,
                           "registers per thread": 32, "shared memory": 0, **more})

    def operator(self, ts, i):
        self.correlation += 1
        name, kernel, dims = [("aten::add", ADD, [[512, 432], [512, 432], []]),
                              ("aten::mm", GEMM, [[256, 1024], [1024, 4096]]),
                              ("aten::sum", REDUCE, [[256, 4096]])][i % 3]
        self.add("cpu_op", name, ts, 40, **{"External id": self.correlation, "Input Dims": dims,
                                            "Input type": ["float"] * len(dims)})
        self.add("cuda_runtime", self.launch, ts + 10, 8, correlation=self.correlation,
                 **{"External id": self.correlation})
        self.kernel(kernel, ts + 30, 45, self.correlation)
        self.flow("s", self.thread, self.thread, ts + 10)
        self.flow("f", self.device, self.stream, ts + 30)

    def flow(self, phase, pid, tid, ts):
        self.events.append({"ph": phase, "id": self.correlation, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g",
                            "name": "ac2g", "bp": "e"})

    def keep(self, wanted):
        self.events = [e for e in self.events if wanted(e)]
        return self

    def change(self, edit):
        for event in self.events:
            edit(event)
        return self

    def document(self, **head):
        return {"schemaVersion": 1, "deviceProperties": [A100], "traceEvents": self.events, **head}


def without(category):
    return Recording().keep(lambda e: e["cat"] != category).document()


def in_category(event, *names):
    return event.get("cat") in names


def nanoseconds():
    """Kineto since PyTorch 2.4: microseconds since 1970 less a base in nanoseconds, with three decimals."""
    r = Recording()
    r.change(lambda e: e.update(ts=float(f"{1720000000000000 + e['ts'] + 0.125:.3f}")))
    return r.document(displayTimeUnit="ms", baseTimeNanoseconds=1700000000000000000)


def text_numbers():
    return Recording().change(lambda e: e.update(ts=str(e["ts"]))).document()


def threads():
    """The autograd thread launches the second half of each step, a third one beside it on its own stream."""
    r = Recording()
    backward = [e for e in r.events if (e["ts"] - 1000) % STEP_US > 500 and in_category(e, "cpu_op", "cuda_runtime")
                and "Synchronize" not in e["name"]]
    for e in backward:
        e["tid"] = e["pid"] = 101
    beside = Recording(thread=102, stream=9)
    beside.keep(lambda e: not e["name"].startswith("ProfilerStep") and "Synchronize" not in e["name"])
    for e in beside.events:
        if "correlation" in e.get("args", {}):
            e["args"]["correlation"] += 100000
    r.events += [e for e in beside.events if e["ph"] == "X"]
    return r.document()


def graphs(launch="cudaGraphLaunch"):
    """One launch a step, to whose correlation all kernels answer."""
    r = Recording().keep(lambda e: in_category(e, "user_annotation"))
    for step in range(4):
        at = 1000 + step * STEP_US
        r.correlation += 1
        r.add("cuda_runtime", launch, at + 20, 30, correlation=r.correlation)
        for i in range(KERNELS):
            r.kernel([ADD, GEMM, REDUCE][i % 3], at + 70 + 50 * i, 45, r.correlation, **{"graph node id": i + 1})
        r.correlation += 1
        r.add("cuda_runtime", "cudaStreamSynchronize", at + 60, 50 * KERNELS + 20, correlation=r.correlation)
    return r.document()


def of_call(name):
    def edit(e):
        if e["name"] == "cudaLaunchKernel":
            e["name"] = name
            if name.startswith("cu") and not name.startswith("cuda"):
                e["cat"] = "cuda_driver"
    return Recording().change(edit).document()


def rocm(name="AMD Radeon Graphics"):
    """The launch call says grid, block and kernel; the kernel neither; names of HIP; the device has none of its own."""
    r = Recording()
    launched = {e["args"]["correlation"]: e for e in r.events if e["name"] == "cudaLaunchKernel"}
    for e in r.events:
        if e["name"].startswith("cuda"):
            e["name"] = "hip" + e["name"][4:]
        if e["cat"] == "kernel":
            call = launched[e["args"]["correlation"]]
            call["args"].update(grid=[432, 1, 1], block=[128, 1, 1], kernel=e["name"], **{"shared memory": 0, "cid": 1})
            e["args"] = {k: e["args"][k] for k in ("device", "stream", "correlation")} | {"kind": "Dispatch Kernel"}
    device = {"id": 0, "name": name, "totalGlobalMem": 68702699520, "computeMajor": 9, "computeMinor": 0,
              "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 64,
              "sharedMemPerBlock": 65536, "numSms": 104, "maxSharedMemoryPerMultiProcessor": 65536}
    return r.document(deviceProperties=[device])


def of_vendor(prefix, category):
    """XPU, MTIA and the like: other categories and names of calls, kernels as everywhere."""
    def edit(e):
        if e["cat"] == "cuda_runtime":
            e["cat"] = category
            e["name"] = prefix + ("EnqueueKernelLaunch" if "Launch" in e["name"] else "QueueFinish")
    return Recording().change(edit).document()


def doubled():
    """Appended to itself, as by a script that merges files."""
    r = Recording()
    r.events += [dict(e) for e in r.events]
    return r.document()


def idle_steps():
    """Marks of steps in which nothing runs, between two that work."""
    r = Recording()
    for i in range(3):
        r.add("user_annotation", f"ProfilerStep#{10 + i}", 1000 + 4 * STEP_US + 100 * i, 90)
    later = Recording(steps=1, begin=1000 + 5 * STEP_US)
    later.change(lambda e: e["args"].update(correlation=e["args"]["correlation"] + 1000)
                 if "correlation" in e.get("args", {}) else e.update(id=e["id"] + 1000) if "id" in e else None)
    later.change(lambda e: e.update(name="ProfilerStep#20") if e["name"].startswith("ProfilerStep") else None)
    r.events += later.events
    return r.document()


def nested():
    """Ranges within ranges, Python's functions, marks of modules, and the device's copies of ranges."""
    r = Recording()
    for step in range(4):
        at = 1000 + step * STEP_US
        for depth in range(30):
            r.add("user_annotation", f"level {depth}", at + 5 + depth / 10, 1100 - depth / 5)
            r.add("python_function", f"model.py({depth}): forward", at + 5 + depth / 10, 1100 - depth / 5,
                  **{"Python id": depth + 1, "Python parent id": depth})
        r.add("python_function", "nn.Module: Linear_0", at + 9, 1000, **{"Python id": 40, "Python module id": 3})
        gpu = r.add("gpu_user_annotation", "level 0", at + 40, 1000)
        gpu.update(pid=0, tid=7)
        r.add("overhead", "Activity Buffer Request", at + 3, 1)
        r.add("cuda_sync", "Stream Sync", at + 1100, 20, stream=7, correlation=10**6 + step, device=0)
        r.add("cuda_event", "cudaEvent", at + 1100, 0)
    r.events.append({"ph": "X", "cat": "Trace", "ts": 1000, "dur": 8000, "pid": "Spans", "tid": "PyTorch Profiler",
                     "name": "PyTorch Profiler (0)", "args": {"Op count": 0}})
    r.events.append({"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces",
                     "tid": "Trace PyTorch Profiler", "ts": 1000})
    return r.document()


def two_devices():
    """One process that drives two devices, as DataParallel does."""
    r, other = Recording(), Recording(device=1, thread=103)
    other.keep(lambda e: not e["name"].startswith("ProfilerStep"))
    for e in other.events:
        e["ts"] += 3
        if "correlation" in e.get("args", {}):
            e["args"]["correlation"] += 50000
    r.events += [e for e in other.events if e["ph"] == "X"]
    return r.document(deviceProperties=[A100, {**A100, "id": 1}])


def lost_launches():
    """Every third launch is not recorded (the profiler's buffer was full), nor is its operator."""
    return Recording().keep(lambda e: e["name"] != "cudaLaunchKernel" or e["args"]["correlation"] % 3).keep(
        lambda e: e["cat"] != "cpu_op" or e["args"]["External id"] % 3).document()


def zero_durations():
    def edit(e):
        if in_category(e, "cuda_runtime") and "Launch" in e["name"] and e["args"]["correlation"] % 2:
            e["dur"] = 0
    return Recording().change(edit).document()


def copies():
    """All kinds of copies and fills, with their bytes as PyTorch 2 writes them."""
    r = Recording()
    for step in range(4):
        at = 1000 + step * STEP_US + 1450
        for i, (call, name, kind) in enumerate((
                ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"),
                ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", "gpu_memcpy"),
                ("cudaMemcpyAsync", "Memcpy DtoD (Device -> Device)", "gpu_memcpy"),
                ("cudaMemcpyPeerAsync", "Memcpy PtoP (Device -> Device)", "gpu_memcpy"),
                ("cuMemcpy3DAsync_v2", "Memcpy HtoD (Pinned -> Array)", "gpu_memcpy"),
                ("cudaMemcpyAsync", "Memcpy HtoH (Pinned -> Pinned)", "gpu_memcpy"),
                ("cudaMemcpyAsync", "Memcpy HtoD (Unified -> Device)", "gpu_memcpy"),
                ("cudaMemsetAsync", "Memset (Device)", "gpu_memset"),
                ("cudaMemsetAsync", "Memset (Unknown)", "gpu_memset"))):
            r.correlation += 1
            r.add("cuda_runtime", call, at + 40 * i, 6, correlation=r.correlation)
            r.add(kind, name, at + 40 * i + 10, 12, device=0, stream=7, correlation=r.correlation, bytes=4096 * (i + 1),
                  **{"memory bandwidth (GB/s)": 0.3})
    return r.document()


DOCUMENTS = {
    "plain": lambda: Recording().document(),
    "nanoseconds": nanoseconds,
    "text_numbers": text_numbers,
    "threads": threads,
    "graphs": graphs,
    "driver_graphs": lambda: graphs("cuGraphLaunch"),
    "hip_graphs": lambda: graphs("hipGraphLaunch"),
    "no_flows": lambda: without("ac2g"),
    "no_operators": lambda: without("cpu_op"),
    "no_steps": lambda: without("user_annotation"),
    "no_device_properties": lambda: {"traceEvents": Recording().events},
    "bare_list": lambda: Recording().events,
    "one_device_object": lambda: Recording().document(deviceProperties=A100),
    "nested": nested,
    "two_devices": two_devices,
    "lost_launches": lost_launches,
    "zero_durations": zero_durations,
    "truncated_mark": lambda: Recording().document(traceName="t.json", **{"trace truncated": "Trace truncated"}),
    "copies": copies,
    "rocm": rocm,
    "rocm_graphics": lambda: rocm("AMD Instinct MI250X / MI250"),
    "cuLaunchKernel": lambda: of_call("cuLaunchKernel"),
    "cuLaunchKernelEx": lambda: of_call("cuLaunchKernelEx"),
    "cudaLaunchKernelExC": lambda: of_call("cudaLaunchKernelExC"),
    "cudaLaunchCooperativeKernel": lambda: of_call("cudaLaunchCooperativeKernel"),
    "hipExtModuleLaunchKernel": lambda: of_call("hipExtModuleLaunchKernel"),
    "hipModuleLaunchKernel": lambda: of_call("hipModuleLaunchKernel"),
    "hipExtLaunchKernel": lambda: of_call("hipExtLaunchKernel"),
    "unnamed_call": lambda: of_call("INVALID"),
    "xpu": lambda: of_vendor("ur", "xpu_runtime"),
    "mtia": lambda: of_vendor("mtia", "mtia_runtime"),
    "doubled": doubled,
    "private": lambda: of_vendor("acl", "privateuse1_runtime"),
}


# Launches are lost, so that the replay is doubted.
UNLINKED = ("lost_launches",)
# No device is named: which one to model for is asked for.
UNNAMED = ("no_device_properties", "bare_list")


def run(*arguments):
    done = subprocess.run([FORETRACE, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def rank(number, steps=4, ranks=2, info=True):
    """A data-parallel rank: an all-reduce at the end of each step, of which the kernel alone says something."""
    r = Recording(steps, thread=100 + 50 * number)
    for step in range(4):
        at = 1000 + step * STEP_US
        r.correlation += 1
        call = r.add("cuda_runtime", "cudaLaunchKernelExC", at + 1100, 6, correlation=r.correlation)
        r.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", call["ts"] + 20, 300,
                 r.correlation, **{"Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
                                   "Group size": ranks, "dtype": "Float", "Process Group Name": "0"})["args"]["stream"] = 20
        r.events[-1]["tid"] = 20
        r.correlation += 1
        r.add("cuda_runtime", "cudaDeviceSynchronize", at + 1115, 320, correlation=r.correlation)
    head = {"distributedInfo": {"backend": "nccl", "rank": number, "world_size": ranks}} if info else {}
    return r.document(**head)


JOBS = {
    "two_ranks": lambda: [rank(0), rank(1)],
    "ranks_of_file_names": lambda: [rank(0, info=False), rank(1, info=False)],
    "fewer_marks": lambda: [rank(0), {**rank(1), "traceEvents": [
        e for e in rank(1)["traceEvents"] if e["name"] not in ("ProfilerStep#1", "ProfilerStep#4")]}],
}


def refused():
    negative = Recording()
    negative.events[1]["dur"] = -5
    yield "negative_duration", negative.document(), ("negative", "event 1")
    yield "no_events", {"traceEvents": []}, ("no operators",)
    yield "spans_alone", {"traceEvents": [{"ph": "X", "cat": "Trace", "ts": 1, "dur": 2, "pid": "Spans",
                                           "tid": "x", "name": "PyTorch Profiler (0)"}]}, ("no operators",)
    yield "start_of_text", Recording().change(lambda e: e.update(ts="soon")).document(), ("ts",)


class Structures(unittest.TestCase):
    def each(self, check):
        for name, make in DOCUMENTS.items():
            with self.subTest(structure=name), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "trace.json")
                with open(path, "w") as file:
                    json.dump(make(), file)
                check(name, path)

    def replayed(self, *arguments):
        code, out, error = run("predict", *arguments, "--json")
        self.assertEqual(code, 0, msg=error)
        answer = json.loads(out)
        self.assertGreater(answer["recorded_iteration_time_us"], 0)
        self.assertLess(abs(answer["iteration_time_us"] / answer["recorded_iteration_time_us"] - 1), 0.03)
        return answer

    def test_replayed_to_the_recorded_step(self):
        def check(name, path):
            answer = self.replayed(path)
            self.assertEqual(answer["doubt"] is not None, name in UNLINKED, msg=answer["doubt"])
        self.each(check)

    def test_durations_from_models(self):
        """No device work is without a model."""
        def check(name, path):
            code, out, error = run("predict", path, "--durations", "model", "--json")
            if name in UNNAMED:
                self.assertEqual(code, 2)
                self.assertIn("--calibration", error)
                return
            self.assertEqual(code, 0, msg=error)
            durations = json.loads(out)["durations"]
            missing = [op["name"] for op in durations["ops"] if op["source"] == "missing"]
            self.assertEqual(durations["missing_count"], 0, msg=missing)
            self.assertGreater(durations["device_us"], 0)
        self.each(check)

    def test_names_the_calibration_of_the_device(self):
        """Which is an option: without it a large GEMM may be half off."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            with open(path, "w") as file:
                json.dump(DOCUMENTS["plain"](), file)
            code, out, error = run("predict", path, "--durations", "model", "--json")
            self.assertEqual(code, 0, msg=error)
            self.assertIn("--calibration a100", " ".join(json.loads(out)["notes"]))

    def test_jobs_of_several_ranks(self):
        for name, make in JOBS.items():
            with self.subTest(job=name), tempfile.TemporaryDirectory() as folder:
                for number, document in enumerate(make()):
                    with open(os.path.join(folder, f"trace_rank{number}.json"), "w") as file:
                        json.dump(document, file)
                self.replayed(folder)
                self.replayed(folder, "--allow-missing-ranks")

    def written(self, document, check):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            with open(path, "w") as file:
                json.dump(document, file)
            return check(path)

    def test_waits_of_other_vendors(self):
        """urQueueFinish is waited for as cudaDeviceSynchronize is: kernels three times as long make the step
        as much longer."""
        slower = ("--what-if", "kind=kernel:x3")
        plain, xpu = (self.written(DOCUMENTS[name](), lambda path: json.loads(run("predict", path, "--json", *slower)[1]))
                      for name in ("plain", "xpu"))
        # 20 kernels of 135 us, a launch and a synchronise around them.
        self.assertGreater(plain["iteration_time_us"], 20 * 135)
        self.assertAlmostEqual(xpu["iteration_time_us"] / plain["iteration_time_us"], 1, delta=0.005)

    def test_events_that_stand_twice(self):
        plain = self.written(DOCUMENTS["plain"](), self.replayed)
        twice = self.written(DOCUMENTS["doubled"](), self.replayed)
        self.assertEqual(twice["iteration_time_us"], plain["iteration_time_us"])
        self.assertIn("duplicate_event", " ".join(twice["notes"]))

    def test_steps_in_which_nothing_runs(self):
        """Are not judged: an interval between two marks is repeated whatever the replay does."""
        answer = self.written(idle_steps(), lambda path: json.loads(run("validate", "--trace", path, "--json")[1]))
        judged = {step["step"]: step["judged"] for step in answer["cases"]}
        self.assertEqual(judged, {1: True, 2: True, 3: True, 4: True, 10: False, 11: False, 12: False, 20: True})
        self.assertEqual(answer["summary"]["count"], 5)

    def test_nothing_runs(self):
        """A profile of the CPU alone, with marks of steps: refused, and what to record."""
        for category, word in (("kernel", "ProfilerActivity"), ("accelerator_op", "accelerator_op")):
            recording = Recording().keep(lambda e: e["cat"] not in ("cuda_runtime", "ac2g"))
            if category == "kernel":
                recording.keep(lambda e: e["cat"] != "kernel")
            recording.change(lambda e: e.update(cat=category) if e["cat"] == "kernel" else None)
            def refused(path):
                for command in (("predict",), ("validate", "--trace"), ("diff", path)):
                    code, _, error = run(*command, path)
                    self.assertEqual(code, 3, msg=error)
                    self.assertIn("no work on a device", error)
                    self.assertIn(word, error)
            self.written(recording.document(), refused)

    def test_kernels_that_exchange_data_themselves(self):
        """All-reduces of vLLM's own kernel wait for other ranks within their recorded durations: said."""
        recording = Recording()
        recording.change(lambda e: e.update(name="void vllm::cross_device_reduce_2stage<__half, 2>(vllm::RankData*)")
                         if e["name"] == REDUCE else None)
        info = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}}
        answer = self.written(recording.document(**info), self.replayed)
        notes = " ".join(answer["notes"])
        # 6 of 20 kernels a step, each 45 us: 24 in all.
        self.assertIn("24 kernels of 1.080 ms in all", notes)
        self.assertIn("by other means than NCCL and RCCL", notes)
        # Rank 0 of 2: the other one is lacking, though no collective names it.
        findings = self.written(recording.document(**info),
                                lambda path: json.loads(run("doctor", path, "--json")[1])["findings"])
        ranks, = (f for f in findings if f["evidence"] == "ranks")
        self.assertEqual((ranks["state"], ranks["found"]), ("lacks", "1 of 2"))
        alone = self.written(recording.document(), self.replayed)
        self.assertNotIn("by other means", " ".join(alone["notes"]))

    def test_steps_of_one_rank_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(2):
                document = rank(number)
                if number == 1:
                    document["traceEvents"] = [e for e in document["traceEvents"]
                                               if not e["name"].startswith("ProfilerStep")]
                with open(os.path.join(folder, f"trace_rank{number}.json"), "w") as file:
                    json.dump(document, file)
            code, _, error = run("predict", folder)
            self.assertEqual(code, 2, msg=error)
            self.assertIn("trace_rank1.json has none of its", error)

    def test_refused_in_one_line(self):
        for name, document, words in refused():
            with self.subTest(refused=name), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "trace.json")
                with open(path, "w") as file:
                    json.dump(document, file)
                code, _, error = run("predict", path)
                self.assertEqual(code, 2, msg=error)
                self.assertEqual(error.strip().count("\n"), 0, msg=error)
                for word in (path, *words):
                    self.assertIn(word, error)


if __name__ == "__main__":
    unittest.main()
