// Import speed. Benchmarks read public traces where present (FORETRACE_REALDATA); bytes per second
// count decompressed JSON.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "simulator/importers/import.h"
#include "simulator/importers/io/input_file.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

int64_t DecompressedBytes(const std::string& path) {
  auto file = InputFile::Open(path, {});
  if (!file.ok()) return 0;
  int64_t bytes = 0;
  while (true) {
    auto document = (*file)->NextDocument();
    if (!document.ok() || *document == nullptr) return bytes;
    while (true) {
      auto chunk = (*document)->Next();
      if (!chunk.ok() || chunk->empty()) break;
      bytes += static_cast<int64_t>(chunk->size());
    }
  }
}

void Import(benchmark::State& state, const char* name) {
  const std::string path = RealData(name);
  if (!std::filesystem::exists(path)) {
    state.SkipWithError("the trace is absent; set FORETRACE_REALDATA");
    return;
  }
  uint64_t nodes = 0;
  for (auto _ : state) {
    auto store = ImportTraces({path}, {});
    if (!store.ok()) {
      state.SkipWithError(std::string(store.status().message()).c_str());
      return;
    }
    nodes = store->node_count();
    state.counters["bytes_per_node"] =
        static_cast<double>(store->memory_bytes()) / static_cast<double>(nodes);
  }
  state.SetBytesProcessed(DecompressedBytes(path) * state.iterations());
  state.SetItemsProcessed(static_cast<int64_t>(nodes) * state.iterations());
}

// Reading and decompressing alone: what import cannot be faster than.
void Read(benchmark::State& state, const char* name) {
  const std::string path = RealData(name);
  if (!std::filesystem::exists(path)) {
    state.SkipWithError("the trace is absent; set FORETRACE_REALDATA");
    return;
  }
  int64_t bytes = 0;
  for (auto _ : state) bytes = DecompressedBytes(path);
  state.SetBytesProcessed(bytes * state.iterations());
}

constexpr char kControl[] = "hta-traces/trace_diff/control/control.json.gz";
constexpr char kResnet[] =
    "kineto-tb_plugin/resnet50_num_workers_0.worker0.1623143089861.pt.trace.json.gz";
constexpr char kDdp[] = "hta-traces/df_index_resolver/df_index_resolver.json.gz";
constexpr char kGraph[] = "param-et_replay/hf_GPT2_et.json.tar.gz";

BENCHMARK_CAPTURE(Import, kineto_gz_control, kControl)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Import, kineto_gz_resnet50, kResnet)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Import, kineto_gz_ddp, kDdp)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Import, pytorch_et_gpt2, kGraph)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Read, kineto_gz_control, kControl)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Read, kineto_gz_ddp, kDdp)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace
