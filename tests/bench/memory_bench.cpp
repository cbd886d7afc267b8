// Memory of a large symbolic job: import; import and replay; with all reports. Peaks are of
// resident memory (VmHWM), which for each benchmark starts anew.
//
// FORETRACE_BENCH_NODES sizes the job (10,000,000 for the budget of the tool; it is written to a
// temporary folder, about 80 bytes a node).
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "simulator/base/status_macros.h"
#include "simulator/cost/roofline/roofline_cost_model.h"
#include "simulator/engine/replay.h"
#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/importers/import.h"
#include "simulator/network/fitted_network.h"
#include "simulator/report/prediction_report.h"
#include "simulator/topology/platform_loader.h"
#include "simulator/trace/builder.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 16;

// A symbolic job: layers of four kernels and an all-reduce, each node after the one before it and
// each layer's first also after the layer before that; names recur in every step.
absl::Status WriteRank(int rank, uint64_t nodes, const std::string& folder) {
  RankInfo info;
  info.rank = rank;
  info.world_size = kRanks;
  info.source = "generated";
  info.has_times = false;
  info.synthetic = true;
  RankTraceBuilder builder(info);
  const LaneIndex compute = builder.AddLane(Lane::Kind::kStream, 0);
  const LaneIndex comm = builder.AddLane(Lane::Kind::kStream, 1);
  for (uint64_t n = 0; n < nodes; ++n) {
    const bool reduce = n % 5 == 4;
    const std::string name = fmt::format("layer{}.op{}", n / 5 % 96, n % 5);
    RankTraceBuilder::NodeSpec spec;
    spec.kind = reduce ? NodeKind::kCollective : NodeKind::kKernel;
    if (reduce) spec.detail = static_cast<uint8_t>(CollectiveOp::kAllReduce);
    spec.name = name;
    spec.lane = reduce ? comm : compute;
    spec.source_id = n;
    const NodeIndex node = builder.AddNode(spec);
    if (reduce) {
      CommAttr attr;
      attr.bytes_in = attr.bytes_out = Bytes(1 << 20);
      builder.SetComm(node, attr);
    } else {
      builder.SetWork(node, {Flop(1e9), Bytes(1 << 22)});
    }
    for (const uint64_t back : {uint64_t{1}, uint64_t{6}}) {
      if (n >= back && (back == 1 || n % 5 == 0)) {
        builder.AddDependency(node, NodeIndex(static_cast<uint32_t>(n - back)),
                              DependencyKind::kData);
      }
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(auto result,
                             builder.Build({.sort_by_start = false, .infer_nesting = false}));
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> traces;
  traces.emplace_back(std::move(result.trace), std::move(result.strings));
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store,
                             TraceStore::Assemble(std::move(traces), Diagnostics()));
  return WriteChakra(store, folder, {});
}

class Generated {
 public:
  Generated() {
    const char* wanted = std::getenv("FORETRACE_BENCH_NODES");
    const uint64_t nodes = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 200'000;
    // In a process of its own, so that its memory does not count.
    const pid_t child = fork();
    if (child == 0) {
      bool ok = true;
      for (int rank = 0; rank < kRanks && ok; ++rank) {
        ok = WriteRank(rank, nodes / kRanks, folder()).ok();
      }
      _exit(ok ? 0 : 1);
    }
    int status = 1;
    ok_ = child > 0 && waitpid(child, &status, 0) == child && status == 0;
  }
  bool ok() const { return ok_; }
  const std::string& folder() const { return folder_.path(); }

 private:
  TempFolder folder_;
  bool ok_ = false;
};

// The most memory that was resident since the last call of Reset().
class Peak {
 public:
  static void Reset() {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";
  }
  static double Megabytes() {
    std::ifstream status("/proc/self/status");
    std::string word;
    double kibibytes = 0;
    while (status >> word) {
      if (word == "VmHWM:") status >> kibibytes;
    }
    return kibibytes * 1024 * 1e-6;
  }
};

enum class Until { kImport, kReplay, kReports };

absl::Status Run(const std::string& folder, Until until, benchmark::State& state) {
  ImportOptions import;
  import.jobs = 1;
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, ImportTraces({folder}, import));
  const auto nodes = static_cast<double>(store.node_count());
  state.counters["nodes"] = nodes;
  state.counters["store_bytes_per_node"] = static_cast<double>(store.memory_bytes()) / nodes;
  if (until == Until::kImport) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(PlatformSpec spec, LoadPlatform(std::string(FORETRACE_SOURCE_DIR) +
                                                             "/topologies/switch-64.yaml"));
  const RooflineCostModel roofline(spec.node.accelerator);
  FORETRACE_ASSIGN_OR_RETURN(const Topology topology, Topology::Create(std::move(spec)));
  FittedNetwork network(topology, NetworkOptions(), FittedNetwork::Measured());
  CompileOptions options;
  options.durations = &roofline;
  options.model_communication = true;
  if (until == Until::kReplay) {
    FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction, Predict(store, options, &network));
    benchmark::DoNotOptimize(prediction.schedule.makespan);
    return absl::OkStatus();
  }
  EventTable table(store);
  EngineObserver* observers[] = {&table};
  FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction,
                             Predict(store, options, &network, observers, ProgramUse::kFree));
  std::vector<std::vector<IterationWindow>> windows;
  for (const PredictedRank& rank : prediction.ranks) {
    const PredictedIteration& it = rank.iterations.front();
    windows.push_back({{it.number, it.predicted_start, it.predicted_end, {}, {}}});
  }
  FORETRACE_ASSIGN_OR_RETURN(const PredictionReport report,
                             BuildPredictionReport(table, windows, {}));
  benchmark::DoNotOptimize(report.iteration_time);
  return absl::OkStatus();
}

void Large(benchmark::State& state, Until until) {
  const Generated job;
  if (!job.ok()) {
    state.SkipWithError("the generated job could not be written");
    return;
  }
  Peak::Reset();
  for (auto _ : state) {
    if (const absl::Status status = Run(job.folder(), until, state); !status.ok()) {
      state.SkipWithError(std::string(status.message()).c_str());
      return;
    }
  }
  state.counters["peak_MB"] = Peak::Megabytes();
}
BENCHMARK_CAPTURE(Large, Import, Until::kImport)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(Large, ImportAndReplay, Until::kReplay)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(Large, ImportReplayAndReports, Until::kReports)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace foretrace
