#include "simulator/mapping/parallel_mapping.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

std::string_view Name(Recompute recompute) {
  static constexpr std::array<std::string_view, 3> kNames = {"none", "selective", "full"};
  return EnumName(kNames, recompute);
}

std::string ToString(const ParallelMapping& m) {
  return fmt::format("tp{} pp{} dp{} mb{} v{} {}{}{}", m.tensor, m.pipeline, m.data, m.micro_batch,
                     m.chunks, Name(m.recompute), m.sequence_parallel ? " sp" : "",
                     m.distributed_optimizer ? " zero1" : "");
}

absl::Status CheckMapping(const TransformerConfig& model, const ParallelMapping& m,
                          int64_t devices) {
  if (m.tensor < 1 || m.pipeline < 1 || m.data < 1 || m.micro_batch < 1 || m.global_batch < 1 ||
      m.chunks < 1) {
    return InvalidInput("mapping {}: every degree and batch size must be at least 1", ToString(m));
  }
  if (devices > 0 && m.devices() != devices) {
    return Infeasible("C3: mapping {} uses {} devices of {}; tp * pp * dp must equal their number",
                      ToString(m), m.devices(), devices);
  }
  if (model.heads % m.tensor != 0 || model.hidden % m.tensor != 0) {
    return Infeasible("mapping {}: tensor parallelism {} does not divide {} heads and hidden {}",
                      ToString(m), m.tensor, model.heads, model.hidden);
  }
  if (model.layers % (int64_t{m.pipeline} * m.chunks) != 0) {
    return Infeasible("C1: mapping {}: {} stages of {} chunks do not divide {} layers", ToString(m),
                      m.pipeline, m.chunks, model.layers);
  }
  if (m.global_batch % (int64_t{m.data} * m.micro_batch) != 0) {
    return Infeasible(
        "mapping {}: micro-batch {} times data parallelism {} does not divide the batch of {}",
        ToString(m), m.micro_batch, m.data, m.global_batch);
  }
  if (m.chunks > 1 && (m.pipeline == 1 || m.microbatches() % m.pipeline != 0)) {
    return Infeasible(
        "mapping {}: interleaving needs a pipeline, and its {} stages to divide {} micro-batches",
        ToString(m), m.pipeline, m.microbatches());
  }
  if (m.sequence_parallel && (m.tensor == 1 || model.sequence % m.tensor != 0)) {
    return Infeasible(
        "mapping {}: sequence parallelism needs tensor parallelism that divides the sequence of {}",
        ToString(m), model.sequence);
  }
  return absl::OkStatus();
}

namespace {

// Bytes that one layer keeps of one micro-batch.
double LayerStash(const TransformerConfig& c, const ParallelMapping& m, Recompute recompute) {
  const double sbh = static_cast<double>(c.sequence * c.hidden) * m.micro_batch;
  const double matrix = 5.0 * static_cast<double>(c.heads * c.sequence) *
                        static_cast<double>(c.sequence) * m.micro_batch;
  const double split = m.sequence_parallel ? m.tensor : 1;
  if (recompute == Recompute::kFull) return 2 * sbh / split;
  const double scores = recompute == Recompute::kSelective ? 0 : matrix;
  return 10 * sbh / split + (24 * sbh + scores) / m.tensor;
}

}  // namespace

MemoryUse MemoryOf(const TransformerConfig& c, const ParallelMapping& m) {
  const auto h = static_cast<double>(c.hidden);
  const double ffn = c.ffn > 0 ? static_cast<double>(c.ffn) : 4 * h;
  const double layers = static_cast<double>(c.layers) / m.pipeline;
  const double matrices = (4 * h * h + (c.family == TransformerFamily::kLlama ? 3 : 2) * h * ffn);
  const double parameters =
      (layers * matrices + static_cast<double>(c.vocabulary) * h) / m.tensor + layers * 9 * h;
  double in_flight = std::min(m.pipeline, m.microbatches());
  if (m.schedule == ScheduleKind::kGPipe) in_flight = m.microbatches();
  if (m.chunks > 1) {
    in_flight *= 1 + static_cast<double>(m.pipeline - 1) / (static_cast<double>(m.pipeline) * m.chunks);
  }
  const auto bytes = [](double n) { return Bytes(static_cast<int64_t>(std::min(n, 4e18))); };
  MemoryUse use;
  use.weights = bytes(2 * parameters);
  use.gradients = bytes(2 * parameters);
  use.optimizer = bytes(12 * parameters / (m.distributed_optimizer ? m.data : 1));
  use.activations = bytes(in_flight * layers * LayerStash(c, m, m.recompute));
  if (m.recompute != Recompute::kNone) {
    use.recomputed = bytes(LayerStash(c, m, Recompute::kNone) - LayerStash(c, m, m.recompute));
  }
  if (m.pipeline == 1) {
    use.logits = bytes(4.0 * static_cast<double>(c.sequence * c.vocabulary) * m.micro_batch / m.tensor);
  }
  return use;
}

absl::Status CheckMemory(const TransformerConfig& model, const ParallelMapping& m, Bytes capacity) {
  const MemoryUse use = MemoryOf(model, m);
  if (use.total() <= capacity) return absl::OkStatus();
  constexpr double kGiB = 1 << 30;
  const auto gib = [&](Bytes b) { return static_cast<double>(b.count()) / kGiB; };
  const auto fits = [&](ParallelMapping other) {
    return MemoryOf(model, other).total() <= capacity;
  };
  std::string help;
  const auto suggest = [&](bool fit, const char* what) {
    if (fit) help += fmt::format("{}{}", help.empty() ? "" : "; or ", what);
  };
  ParallelMapping other = m;
  other.recompute = Recompute::kFull;
  suggest(m.recompute != Recompute::kFull && fits(other), "full recomputation would fit");
  other = m;
  other.micro_batch = 1;
  suggest(m.micro_batch > 1 && fits(other), "micro-batches of 1 would fit");
  other = m;
  other.distributed_optimizer = true;
  suggest(!m.distributed_optimizer && fits(other), "a distributed optimizer would fit");
  other = m;
  other.sequence_parallel = true;
  suggest(!m.sequence_parallel && m.tensor > 1 && fits(other), "sequence parallelism would fit");
  if (help.empty()) help = "more tensor or pipeline parallelism is needed";
  return Infeasible(
      "mapping {} needs {:.1f} GiB a device, {:.1f} more than there is (weights {:.1f}, gradients "
      "{:.1f}, optimizer {:.1f}, activations {:.1f}); {}",
      ToString(m), gib(use.total()), gib(use.total() - capacity), gib(use.weights),
      gib(use.gradients), gib(use.optimizer), gib(use.activations), help);
}

}  // namespace foretrace
