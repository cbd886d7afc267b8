// Import and export of Chakra traces: nodes per second and memory.
//
// The 64-rank Llama set is measured as unpacked files, in the folder FORETRACE_LLAMA64:
//   tar xJf $FORETRACE_REALDATA/stg-llama/llama_dp4_tp4_pp4_64ranks.tar.xz -C $FORETRACE_LLAMA64
// FORETRACE_BENCH_NODES sizes the generated job (10,000,000 for the budget of the trace
// store; it is written to a temporary folder, about 80 bytes a node).
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/importers/import.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void ImportFolder(benchmark::State& state, const std::string& folder) {
  uint64_t nodes = 0;
  size_t bytes = 0;
  for (auto _ : state) {
    const auto store = ImportTraces({folder}, {});
    if (!store.ok()) {
      state.SkipWithError(std::string(store.status().message()).c_str());
      return;
    }
    nodes = store->node_count();
    bytes = store->memory_bytes();
  }
  state.SetItemsProcessed(static_cast<int64_t>(nodes) * state.iterations());
  state.counters["bytes_per_node"] = static_cast<double>(bytes) / static_cast<double>(nodes);
  state.counters["peak_MB"] = PeakMegabytes();
}

void ImportLlama64(benchmark::State& state) {
  const char* folder = std::getenv("FORETRACE_LLAMA64");
  if (folder == nullptr) {
    state.SkipWithError("set FORETRACE_LLAMA64 to the unpacked set");
    return;
  }
  ImportFolder(state, folder);
}
BENCHMARK(ImportLlama64)->Unit(benchmark::kMillisecond);

// A symbolic job of 16 ranks: layers of four kernels and an all-reduce, each node after the one
// before it and each layer's first also after the layer before that; names recur in every step.
class Generated {
 public:
  explicit Generated(uint64_t nodes)
      : folder_(fs::temp_directory_path() / fmt::format("foretrace_bench_{}", getpid())) {
    fs::create_directories(folder_);
    constexpr int kRanks = 16;
    for (int rank = 0; rank < kRanks && ok_; ++rank) WriteRank(rank, kRanks, nodes / kRanks);
  }
  ~Generated() {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  bool ok() const { return ok_; }
  std::string folder() const { return folder_.string(); }

 private:
  void WriteRank(int rank, int ranks, uint64_t nodes) {
    RankTraceBuilder builder(MakeInfo(rank, ranks));
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
    auto result = builder.Build({.sort_by_start = false, .infer_nesting = false});
    if (!result.ok()) {
      ok_ = false;
      return;
    }
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> traces;
    traces.emplace_back(std::move(result->trace), std::move(result->strings));
    const auto store = TraceStore::Assemble(std::move(traces), Diagnostics());
    ok_ = store.ok() && WriteChakra(*store, folder(), {}).ok();
  }
  static RankInfo MakeInfo(int rank, int ranks) {
    RankInfo info;
    info.rank = rank;
    info.world_size = ranks;
    info.source = "generated";
    info.has_times = false;
    info.synthetic = true;
    return info;
  }

  fs::path folder_;
  bool ok_ = true;
};

void ImportGenerated(benchmark::State& state) {
  const char* wanted = std::getenv("FORETRACE_BENCH_NODES");
  const Generated job(wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 200'000);
  if (!job.ok()) {
    state.SkipWithError("the generated job could not be written");
    return;
  }
  ImportFolder(state, job.folder());
}
BENCHMARK(ImportGenerated)->Unit(benchmark::kMillisecond);

void ExportSample(benchmark::State& state) {
  const std::string sample = std::string(FORETRACE_SOURCE_DIR) + "/traces/samples/dlrm_8rank";
  const auto store = ImportTraces({sample}, {});
  if (!store.ok()) {
    state.SkipWithError(std::string(store.status().message()).c_str());
    return;
  }
  for (auto _ : state) {
    for (const RankTrace& rank : store->ranks()) {
      benchmark::DoNotOptimize(EncodeChakra(*store, rank));
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(store->node_count()) * state.iterations());
}
BENCHMARK(ExportSample)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace
