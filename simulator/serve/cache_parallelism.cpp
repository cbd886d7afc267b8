#include "simulator/serve/cache_parallelism.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "simulator/base/check.h"
#include "simulator/base/real_sizes.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace::serve {
namespace {

// GEMMs and norms of a layer for `tokens` tokens, heads and widths divided by `tensor`.
RealUs LinearTime(const TransformerConfig& model, int64_t tokens, int32_t tensor,
                  const DeviceCosts& costs) {
  TransformerConfig sized = model;
  sized.fused_attention = true;
  sized.dropout = false;
  const TransformerGraph graph = MakeTransformerGraph(sized);
  sized.sequence = std::max<int64_t>(tokens, 1);
  const Binding sizes = BindTransformer(graph, sized, {.tensor = tensor});
  RealUs time;
  for (OpId id = 0; id < static_cast<OpId>(graph.graph.ops().size()); ++id) {
    const GraphOp& op = graph.graph.op(id);
    if (!op.in_block || op.kind == GraphOpKind::kAttention) continue;
    for (const OperatorCall& call : CallsOf(graph.graph, sizes, id, Direction::kForward)) {
      for (const KernelWork& work : Kernels(call)) time += RealUs(costs.Kernel(work).time.us());
    }
  }
  return time;
}

RealUs StreamTime(DType dtype, double bytes, const DeviceCosts& costs) {
  KernelWork work;
  work.kind = KernelKind::kElementwise;
  work.dtype = dtype;
  work.read = Bytes(std::llround(bytes));
  return RealUs(costs.Kernel(work).time.us());
}

}  // namespace

PartialAttention Attend(std::span<const double> scores,
                        std::span<const std::vector<double>> values) {
  FORETRACE_CHECK(!scores.empty() && scores.size() == values.size());
  PartialAttention part;
  part.maximum = *std::max_element(scores.begin(), scores.end());
  part.output.resize(values[0].size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const double weight = std::exp(scores[i] - part.maximum);
    part.sum += weight;
    for (size_t j = 0; j < part.output.size(); ++j) part.output[j] += weight * values[i][j];
  }
  for (double& o : part.output) o /= part.sum;
  return part;
}

PartialAttention Merge(std::span<const PartialAttention> parts) {
  PartialAttention all;
  all.maximum = -std::numeric_limits<double>::infinity();
  for (const PartialAttention& p : parts) {
    if (p.sum > 0) all.maximum = std::max(all.maximum, p.maximum);
  }
  for (const PartialAttention& p : parts) {
    if (p.sum == 0) continue;
    const double weight = p.sum * std::exp(p.maximum - all.maximum);
    all.sum += weight;
    all.output.resize(p.output.size());
    for (size_t j = 0; j < p.output.size(); ++j) all.output[j] += weight * p.output[j];
  }
  FORETRACE_CHECK(all.sum > 0);
  for (double& o : all.output) o /= all.sum;
  return all;
}

double TensorVolume(VolumeForm form, int64_t batch, int64_t hidden, int32_t devices) {
  const double total = 4 * AsDouble(batch) * AsDouble(hidden) * (devices - 1);
  return form == VolumeForm::kThesis ? total : total / devices;
}

double CacheVolume(VolumeForm form, int64_t batch, int64_t hidden, int64_t heads, int32_t devices) {
  const double gather = 3 * AsDouble(batch) * AsDouble(hidden) * (devices - 1) / devices;
  const double partial = AsDouble(batch) * AsDouble(hidden + 2 * heads) * (devices - 1);
  return gather + partial / (form == VolumeForm::kThesis ? 2 : devices);
}

std::string_view Name(DecodeParallelism parallelism) {
  static constexpr std::array<std::string_view, 3> kNames = {"kvp", "dp", "tp"};
  return kNames[static_cast<size_t>(parallelism)];
}

DecodeStep DecodeLayer(const DecodeScenario& s, DecodeParallelism parallelism,
                       const DeviceCosts& costs) {
  const TransformerConfig& m = s.model;
  const int32_t n = s.devices;
  const int64_t width = ElementSize(m.dtype);
  const double kv_per_token = 2.0 * AsDouble(m.kv_heads * m.head_size * width);
  const double all_kv = kv_per_token * AsDouble(s.max_batch) * AsDouble(s.context);
  // Requests end at lengths of their own: only data parallelism leaves that to each device.
  const double uneven = parallelism == DecodeParallelism::kData ? 1 + s.spread : 1;
  const double device_kv = all_kv / n * uneven;

  DecodeStep step;
  step.batch = s.max_batch;
  const bool tensor = parallelism == DecodeParallelism::kTensor;
  const int64_t tokens = tensor ? s.max_batch : (s.max_batch + n - 1) / n;
  step.compute =
      LinearTime(m, tokens, tensor ? n : 1, costs) + StreamTime(m.dtype, device_kv, costs);
  const auto exchange = [&](CollectiveOp op, Bytes bytes) {
    return RealUs(costs.Collective(op, n, bytes).time.us());
  };
  const Bytes stream(s.max_batch * m.hidden * width);
  if (tensor) {
    step.communication = 2 * exchange(CollectiveOp::kAllReduce, stream);
  } else if (parallelism == DecodeParallelism::kCache) {
    const int64_t qkv = s.max_batch * (m.heads + 2 * m.kv_heads) * m.head_size * width;
    const int64_t partial = s.max_batch * m.heads * (m.head_size + 2) * width;
    step.communication = exchange(CollectiveOp::kAllGather, Bytes(qkv)) +
                         exchange(CollectiveOp::kAllToAll, Bytes(partial));
  }
  // A device's table has the blocks of the sequences that it has positions of; heads do not divide
  // them.
  const double blocks =
      AsDouble(s.max_batch) * AsDouble(s.context) / s.block_tokens / (tensor ? 1 : n);
  const double evicted = std::max(0.0, device_kv - AsDouble(s.kv_memory.count()));
  step.host = s.host + blocks * uneven * s.table_per_1000_blocks / 1000;
  if (evicted > 0) step.host += RealUs(RealBytes(evicted) / s.host_bandwidth);
  return step;
}

}  // namespace foretrace::serve
