#pragma once
// What evidence costs that a capture lacks, and the lines of PyTorch's profiler that record it.
// Costs with figures are measured by leaving the evidence out of good captures: docs/capture.md
// holds the table and the command.

#include <string_view>

namespace foretrace::CaptureLines {

inline constexpr std::string_view kWholeCapture =
    "record a run: with torch.profiler.profile(activities=[ProfilerActivity.CPU, "
    "ProfilerActivity.CUDA], schedule=torch.profiler.schedule(wait=1, warmup=2, active=4), "
    "record_shapes=True, on_trace_ready=lambda p: p.export_chrome_trace(f\"rank{rank}.json.gz\")) "
    "as prof: ... prof.step()";
inline constexpr std::string_view kActivities =
    "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])";
inline constexpr std::string_view kSteps =
    "profile(schedule=torch.profiler.schedule(wait=1, warmup=2, active=4)), and prof.step() after "
    "every step";
inline constexpr std::string_view kEveryRank =
    "on every rank: profile(on_trace_ready=lambda p: "
    "p.export_chrome_trace(f\"rank{torch.distributed.get_rank()}.json.gz\"))";
inline constexpr std::string_view kShapes = "profile(record_shapes=True)";
inline constexpr std::string_view kExecutionTrace =
    "observer = torch.profiler.ExecutionTraceObserver().register_callback(\"et_rank0.json\"); "
    "profile(execution_trace_observer=observer)";
inline constexpr std::string_view kEvents =
    "profile(experimental_config=torch._C._profiler._ExperimentalConfig("
    "enable_cuda_sync_events=True))";
inline constexpr std::string_view kNewPytorch =
    "PyTorch 2.5 or later, whose NCCL kernels name group, size and number; or --process-groups "
    "FILE";
inline constexpr std::string_view kStacks = "profile(with_stack=True, with_modules=True)";
inline constexpr std::string_view kMemory = "profile(profile_memory=True)";
inline constexpr std::string_view kLessOverhead =
    "leave out with_stack, with_modules and profile_memory for the run that times are taken from";

inline constexpr std::string_view kCorrelationCost =
    "when device work could start is not known, so that recorded gaps are replayed: steps repeat, "
    "and no what-if means anything (GEMMs twice as long make a public capture 17.5 instead of "
    "3.7 % slower)";
inline constexpr std::string_view kOccupancyCost =
    "streams that compete for the device are timed as if there were room: of five public captures "
    "one does, and is 7.7 instead of 0.5 % off without it";
inline constexpr std::string_view kDeviceNameCost =
    "launch queue and latencies are those of a common device; --on needs the name";
inline constexpr std::string_view kStepsCost =
    "no steady state: the first step's device work runs into the next, which is then not seen";
inline constexpr std::string_view kRanksCost =
    "what absent ranks are waited for is an interval, not a figure: from one rank nine jobs of "
    "known "
    "timing are 1.4 % off under a change in the mean and 3.9 at most, from all 0.1 at most";
inline constexpr std::string_view kShapesCost =
    "kernels can hardly be modelled on another device (--on, --durations model): modelled steps of "
    "a "
    "public capture are 22 instead of 0.9 % off without them";
inline constexpr std::string_view kExecutionTraceCost =
    "dependencies come from events and rules instead of tensors";
inline constexpr std::string_view kEventsCost =
    "what waits for what is inferred from times, by rules (inspect says how well they fit): nine "
    "jobs "
    "of known timing are within 0.1 % under a change without it, too";
inline constexpr std::string_view kGroupsCost =
    "members of communicators are inferred from which kernels end together: one of nine jobs of "
    "known timing is 1.6 % off under a change, the others 0.1 at most";
inline constexpr std::string_view kSizesCost =
    "communication cannot be modelled on another network (--on, --network)";
inline constexpr std::string_view kSequenceCost =
    "operations are matched by their order (nine jobs of known timing lose nothing); recordings "
    "cut "
    "at different places may be misaligned";
inline constexpr std::string_view kStacksCost = "no time by line of the program";
inline constexpr std::string_view kModulesCost = "no time by module (predict --by module)";
inline constexpr std::string_view kMemoryCost = "no memory over time (predict --memory)";

}  // namespace foretrace::CaptureLines
