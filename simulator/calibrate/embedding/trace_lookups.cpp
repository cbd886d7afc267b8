#include "simulator/calibrate/embedding/trace_lookups.h"

#include <filesystem>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/calibrate/embedding/embedding_rows.h"
#include "simulator/cost/embedding/embedding_operator.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/traced/kernel_cost_model.h"

namespace foretrace {
namespace {

// Summed over a call's kernels.
struct CallTimes {
  double kernels_us = 0, sort_us = 0;
};

CallTimes TimesOf(const TraceStore& store, const RankTrace& rank,
                  const KernelCostModel::Lookup& lookup) {
  CallTimes times;
  for (const NodeIndex node : lookup.kernels) {
    if (!rank.has_duration(node) || rank.kind(node) == NodeKind::kMemset) continue;
    const std::string_view name = store.name(rank, node);
    // The gradient of weights a sample, which weighted lookups have on top.
    if (name.find("grad_indice_weights") != std::string_view::npos) continue;
    const bool sort = TraitsOfKernel(name).role == KernelRole::kSort;
    (sort ? times.sort_us : times.kernels_us) += rank.duration(node).us();
  }
  return times;
}

}  // namespace

absl::StatusOr<BenchmarkTable> LookupTable(const TraceStore& store, const std::string& label) {
  const std::string& name = store.ranks().front().info().device_name;
  const auto device = FindGpuPeaks(name);
  if (!device.ok()) {
    return InvalidInput("{}: recorded on '{}': {}", label, name,
                        std::string(device.status().message()));
  }
  const KernelCostModel model(
      std::make_shared<const KernelModels>(*device, std::vector<KernelModel>()), store);
  BenchmarkTable table;
  table.path = label;
  table.provenance["device"] = name;
  for (const RankTrace& rank : store.ranks()) {
    for (const KernelCostModel::Lookup& lookup : model.lookups(rank)) {
      if (lookup.op.rows <= 0 || lookup.op.lookups <= 0) continue;
      const CallTimes times = TimesOf(store, rank, lookup);
      LookupSample sample;
      sample.kernels = lookup.op.batched ? LookupKernels::kBatched : LookupKernels::kBag;
      sample.pass =
          lookup.pass == Direction::kForward ? LookupPass::kForward : LookupPass::kBackward;
      sample.query = QueryOf(lookup.op, lookup.dtype);
      const auto add = [&](TimedPart part, double us) {
        if (us <= 0) return;
        sample.part = part;
        BenchmarkRow row = RowOfSample(sample, "trace;rows=equally-likely");
        row.platform = device->name;
        row.time_us = us;
        row.source =
            fmt::format("trace rank={} step={} call={}", rank.info().rank,
                        rank.iteration_at(rank.start(lookup.call)), rank.source_id(lookup.call));
        row.line = static_cast<int64_t>(table.rows.size()) + 1;
        table.rows.push_back(std::move(row));
      };
      add(TimedPart::kKernels, times.kernels_us);
      add(TimedPart::kSort, times.sort_us);
    }
  }
  if (table.rows.empty()) {
    return InvalidInput(
        "{}: no embedding lookups whose shapes are recorded; an execution trace, or a "
        "profile with record_shapes=True, has them",
        label);
  }
  return table;
}

}  // namespace foretrace
