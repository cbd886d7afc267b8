// Import and export of Chakra traces: nodes per second and memory.
//
// The 64-rank Llama set is measured as unpacked files, in the folder FORETRACE_LLAMA64:
//   tar xJf $FORETRACE_REALDATA/stg-llama/llama_dp4_tp4_pp4_64ranks.tar.xz -C $FORETRACE_LLAMA64
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/importers/import.h"

namespace foretrace {
namespace {

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

void ExportSample(benchmark::State& state) {
  const std::string sample = std::string(FORETRACE_SOURCE_DIR) + "/traces/samples/dlrm_8rank";
  const auto store = ImportTraces({sample}, {});
  if (!store.ok()) {
    state.SkipWithError(std::string(store.status().message()).c_str());
    return;
  }
  for (auto _ : state) {
    const CommView view = ViewCommunication(*store);
    for (const RankTrace& rank : store->ranks()) {
      benchmark::DoNotOptimize(EncodeChakra(*store, view, rank));
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(store->node_count()) * state.iterations());
}
BENCHMARK(ExportSample)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace
