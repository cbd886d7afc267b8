// Which mappings of a model there can be.

#include <algorithm>

#include "simulator/base/dtype.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/division_checks.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/parallel_mapping.h"
#include "simulator/mapping/recomputed_modules.h"

namespace foretrace {

absl::Status CheckDegrees(const ParallelMapping& m) {
  const std::pair<const char*, int32_t> degrees[] = {
      {"tp", m.tensor}, {"cp", m.context}, {"pp", m.pipeline},
      {"dp", m.data},   {"ep", m.expert},  {"mb", m.micro_batch},
      {"v", m.chunks},  {"k", m.k},        {"gb", m.global_batch}};
  for (const auto& [what, value] : degrees) {
    if (value < 1 || value > kMaxDegree) {
      return InvalidInput("mapping {}: {} must be between 1 and {}, not {}", ToString(m), what,
                          kMaxDegree, value);
    }
  }
  if (m.zero < 0 || m.zero > 3) {
    return InvalidInput("mapping {}: zero must be between 0 and 3, not {}", ToString(m), m.zero);
  }
  if (m.lora_everywhere && m.lora == 0) {
    return InvalidInput("mapping {}: lora-all needs a rank, loraN", ToString(m));
  }
  const std::pair<const char*, int32_t> none_or_more[] = {
      {"etp", m.expert_tensor},       {"hsdp", m.hybrid},
      {"hpz", m.second_shards},       {"lora", m.lora},
      {"last", m.last_layers},        {"uniform", m.recomputed_together},
      {"every", m.recomputed_every},  {"imbalance", m.expert_imbalance},
      {"capacity", m.expert_capacity}};
  for (const auto& [what, value] : none_or_more) {
    if (value < 0 || value > kMaxDegree) {
      return InvalidInput("mapping {}: {} must be between 0 and {}, not {}", ToString(m), what,
                          kMaxDegree, value);
    }
  }
  return absl::OkStatus();
}

namespace {

// What is frozen, and how tokens are spread over experts.
absl::Status CheckTrained(const TransformerConfig& model, const ParallelMapping& m) {
  const bool named = m.train_attention || m.train_ffn;
  if (m.lora > 0 && named) {
    return Infeasible(
        "mapping {}: adapters are trained beside frozen weights; say loraN, or train-attention and "
        "train-ffn",
        ToString(m));
  }
  if (m.last_layers >= model.layers) {
    return Infeasible("mapping {}: last{} leaves none of {} layers frozen; fewer, or none named",
                      ToString(m), m.last_layers, model.layers);
  }
  if (!m.trains_ends() && m.lora == 0 && model.further_tokens > 0) {
    return Infeasible(
        "mapping {}: partial training of models that predict further tokens is not covered",
        ToString(m));
  }
  if (m.last_layers > 0 && LayerKinds(model) > 1) {
    return Infeasible("mapping {}: lastN of models whose layers are of two kinds is not covered",
                      ToString(m));
  }
  if (m.last_layers > 0 && FrozenLayers(model, m) >= LayersOf(model, m, 0, 0)) {
    return Infeasible(
        "mapping {}: the first of {} chunks of layers would have no backward pass, which schedules "
        "do not know; fewer stages (pp) or chunks (v), or more layers than last{}, would do",
        ToString(m), int64_t{m.pipeline} * m.chunks, m.last_layers);
  }
  return absl::OkStatus();
}

absl::Status CheckPrecision(const TransformerConfig& model, const ParallelMapping& m) {
  if (int{m.fp8} + int{m.mxfp8} + int{m.nvfp4} > 1) {
    return Infeasible("mapping {}: fp8, mxfp8 and nvfp4 are three forms of one thing; say one",
                      ToString(m));
  }
  if (m.keeps_eight && !m.fp8 && !m.mxfp8) {
    return Infeasible("mapping {}: keep-fp8 keeps what GEMMs took in 8 bits; fp8 or mxfp8 too",
                      ToString(m));
  }
  if (m.keeps_eight && !m.repeats_parts()) {
    return Infeasible(
        "mapping {}: keep-fp8 with {} recomputation is not covered; light, selective or none would "
        "do",
        ToString(m), Name(m.recompute));
  }
  if (m.moment_bytes > 0 && m.offload) {
    return Infeasible(
        "mapping {}: moments in fewer bits on the host are not covered; offload or moments{} alone",
        ToString(m), 8 * m.moment_bytes);
  }
  if ((m.mxfp8 || m.nvfp4) && ElementSize(model.dtype) > 2) {
    return Infeasible("mapping {}: operands are cast from 16 bits, and the model has {}",
                      ToString(m), 8 * ElementSize(model.dtype));
  }
  return absl::OkStatus();
}

absl::Status CheckLoad(const TransformerConfig& model, const ParallelMapping& m) {
  if (m.expert_imbalance == 0 && m.expert_capacity == 0 && !m.balance_loss) {
    return absl::OkStatus();
  }
  if (model.experts == 0) {
    return Infeasible("mapping {}: imbalance, capacity and balance-loss need a model with experts",
                      ToString(m));
  }
  if (m.expert_imbalance > 0 && m.expert_capacity > 0) {
    return Infeasible(
        "mapping {}: experts that are padded to a capacity have all the same load; say imbalance "
        "or "
        "capacity",
        ToString(m));
  }
  if (m.expert_imbalance > 0 && m.expert_load() > m.expert) {
    return Infeasible(
        "mapping {}: a rank of {}-way expert parallelism can have no more than all routed tokens, "
        "imbalance{}",
        ToString(m), m.expert, 100 * (int64_t{m.expert} - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckSchedule(const ParallelMapping& m) {
  if (m.returns() && (m.pipeline == 1 || m.chunks != 2)) {
    return Infeasible("C4: mapping {}: {} goes through a pipeline and back: pp2 or more, and v2",
                      ToString(m), Name(m.schedule));
  }
  if (m.schedule == ScheduleKind::kDualPipeV && m.microbatches() < 2 * m.pipeline) {
    return Infeasible(
        "C4: mapping {}: dualpipev needs two micro-batches a stage at least; stages are {}, "
        "micro-batches {}; zb-v would do",
        ToString(m), m.pipeline, m.microbatches());
  }
  if (m.paired() && !m.dual() && (m.zero > 1 || m.last_layers > 0)) {
    return Infeasible(
        "mapping {}: dualpipev with gradients or weights divided over replicas, or layers that are "
        "not trained, is not covered; zero1 without lastN, or zb-v, would do",
        ToString(m));
  }
  if (m.returns()) return absl::OkStatus();
  if (m.chunks > 1 && (m.pipeline == 1 || m.microbatches() % m.pipeline != 0)) {
    return Infeasible(
        "C4: mapping {}: interleaving needs a pipeline, and its {} stages to divide {} "
        "micro-batches; v1 would do",
        ToString(m), m.pipeline, m.microbatches());
  }
  if (m.chunks > 1 && !m.interleaves()) {
    return Infeasible("C4: mapping {}: only 1F1B and ZB-H1 interleave chunks; v1 would do",
                      ToString(m));
  }
  if (m.k > 1 && m.schedule != ScheduleKind::kKFKB) {
    return Infeasible("C4: mapping {}: k is of the kfkb schedule alone", ToString(m));
  }
  if (!m.dual()) return absl::OkStatus();
  if (m.pipeline % 2 != 0 || m.microbatches() % 2 != 0 || m.microbatches() / 2 < m.pipeline) {
    return Infeasible(
        "C4: mapping {}: dualpipe feeds both ends of the pipeline: it needs an even number of "
        "stages, and an even number of micro-batches that is at least twice as many; "
        "stages are {}, micro-batches {}; zb-h1 would do",
        ToString(m), m.pipeline, m.microbatches());
  }
  if (m.zero > 1 || m.last_layers > 0) {
    return Infeasible(
        "mapping {}: dualpipe with gradients or weights divided over replicas, or layers that are "
        "not trained, is not covered; zero1 without lastN would do",
        ToString(m));
  }
  return absl::OkStatus();
}

// Of sequences, heads and hidden sizes, and of what replicas divide.
absl::Status CheckSharding(const TransformerConfig& model, const ParallelMapping& m) {
  if (model.heads % m.tensor != 0 || model.hidden % m.tensor != 0) {
    return Infeasible(
        "mapping {}: tensor parallelism {} does not divide {} heads and hidden {}; a divisor of "
        "both would do",
        ToString(m), m.tensor, model.heads, model.hidden);
  }
  if (const auto undivided = FirstUndivided(model, m.tensor, m.expert_width() == 1)) {
    return Infeasible(
        "mapping {}: tensor parallelism {} does not divide the {} {}; a divisor would do",
        ToString(m), m.tensor, undivided->size, undivided->what);
  }
  if (m.sequence_parallel && (m.tensor == 1 || model.sequence % m.tensor != 0)) {
    return Infeasible(
        "mapping {}: sequence parallelism needs tensor parallelism that divides the sequence of {}",
        ToString(m), model.sequence);
  }
  if ((m.async_tensor || m.chunked_tensor) && !m.sequence_parallel) {
    return Infeasible("mapping {}: tp-async and tp-chunked need sequence parallelism (sp)",
                      ToString(m));
  }
  if (m.async_tensor && m.chunked_tensor) {
    return Infeasible("mapping {}: tp-async and tp-chunked are two ways of one thing; say one",
                      ToString(m));
  }
  FORETRACE_RETURN_IF_ERROR(CheckShards(m));
  if (m.offload_weights && (!m.offload || m.zero != 3 || m.replicas() == 1)) {
    return Infeasible("mapping {}: offload-weights needs offload, zero3 and at least 2 replicas",
                      ToString(m));
  }
  // Causal attention is balanced by giving each device one part from the front, one from the back.
  if (m.context > 1 && model.sequence % (2 * int64_t{m.context}) != 0) {
    return Infeasible(
        "mapping {}: twice the context parallelism {} does not divide the sequence of {}",
        ToString(m), m.context, model.sequence);
  }
  return absl::OkStatus();
}

absl::Status CheckContext(const TransformerConfig& model, const ParallelMapping& m) {
  if (m.ring && m.context == 1) {
    return Infeasible("mapping {}: ring needs context parallelism", ToString(m));
  }
  const int64_t together = int64_t{m.tensor} * m.context;
  if (m.context > 1 && HasPart(model, LayerPart::kDelta)) {
    return Infeasible(
        "mapping {}: context parallelism of gated delta nets is not covered; tensor parallelism "
        "divides their heads",
        ToString(m));
  }
  if (m.context > 1 && HasStates(model) && model.state_groups % together != 0) {
    return Infeasible(
        "mapping {}: under context parallelism devices scan whole sequences of a part of the {} "
        "groups of states, which tp * cp, {}, does not divide; a divisor would do",
        ToString(m), model.state_groups, together);
  }
  if (!m.ulysses) return absl::OkStatus();
  const int64_t key_heads = model.kv_heads > 0 ? model.kv_heads : model.heads;
  const int64_t parts = int64_t{m.tensor} * m.context;
  if (m.context == 1 || m.ring || model.heads % parts != 0 || key_heads % parts != 0) {
    return Infeasible(
        "mapping {}: ulysses needs context parallelism without ring, and {} heads of queries and "
        "{} of keys that tp * cp, {}, divides",
        ToString(m), model.heads, key_heads, parts);
  }
  return absl::OkStatus();
}

absl::Status CheckExperts(const TransformerConfig& model, const ParallelMapping& m) {
  if (m.expert > 1 && (model.experts == 0 || model.experts % m.expert != 0)) {
    return Infeasible("mapping {}: expert parallelism {} does not divide {} experts", ToString(m),
                      m.expert, model.experts);
  }
  if (m.expert_tensor > 0 && model.experts == 0) {
    return Infeasible("mapping {}: etp needs experts, which the model does not have", ToString(m));
  }
  if (m.expert_width() != m.tensor && (m.expert_width() != 1 || !m.sequence_parallel)) {
    return Infeasible(
        "mapping {}: experts are divided as other GEMMs are, or, under sequence parallelism, "
        "not at all: etp{} or etp1 sp",
        ToString(m), m.tensor);
  }
  if (m.dispatch != ExpertDispatch::kAllToAll && m.expert > 1 && m.expert_width() != 1) {
    return Infeasible(
        "mapping {}: dispatch={} is of whole experts; etp1 sp, tp1 or dispatch=alltoall would do",
        ToString(m), Name(m.dispatch));
  }
  if (m.dispatch_fp8 && ElementSize(model.dtype) > 2) {
    return Infeasible("mapping {}: dispatch-fp8 casts from 16 bits, and the model has {}",
                      ToString(m), 8 * ElementSize(model.dtype));
  }
  if (m.overlap_experts && !m.alternates()) {
    return Infeasible(
        "mapping {}: ep-overlap needs a schedule that goes forward and backward in turn, 1f1b, "
        "zb-h1, zb-v, dualpipe or dualpipev",
        ToString(m));
  }
  if (m.overlap_experts &&
      (m.recompute == Recompute::kFull || m.recompute == Recompute::kAlternate)) {
    return Infeasible(
        "mapping {}: ep-overlap runs parts of layers, which {} recomputation runs whole; selective "
        "or none would do",
        ToString(m), Name(m.recompute));
  }
  if (m.expert_groups() % m.expert != 0) {
    return Infeasible(
        "C3: mapping {}: expert parallelism {} does not divide the {} replicas (dp * cp{})",
        ToString(m), m.expert, m.expert_groups(), m.expert_tensor == 1 ? " * tp" : "");
  }
  if (!m.divides_experts_in_groups()) {
    return Infeasible(
        "C3: mapping {}: experts are divided within each group of hsdp{} replicas, whose {} parts "
        "expert parallelism {} does not divide; a divisor, or larger groups, would do",
        ToString(m), m.hybrid, m.hybrid * m.tensor / m.expert_width(), m.expert);
  }
  return absl::OkStatus();
}

absl::Status CheckLayers(const TransformerConfig& model, const ParallelMapping& m) {
  const size_t chunks = static_cast<size_t>(m.pipeline) * static_cast<size_t>(m.chunks);
  int64_t sum = 0;
  for (const int32_t layers : m.layers) sum += layers;
  if (m.layers.size() != chunks || sum != model.layers || m.counted_ends) {
    return Infeasible(
        "C1: mapping {}: {} counts of layers add up to {}; as many counts as chunks ({} stages of "
        "{}) must add up to {} layers, without ends",
        ToString(m), m.layers.size(), sum, m.pipeline, m.chunks, model.layers);
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const ParallelMapping& m) {
  if (m.global_batch % (int64_t{m.data} * m.micro_batch) != 0) {
    return Infeasible(
        "C5: mapping {}: micro-batch {} times data parallelism {} does not divide the batch of {}",
        ToString(m), m.micro_batch, m.data, m.global_batch);
  }
  return absl::OkStatus();
}

// What would divide layers over chunks that do not divide them.
std::string OtherDivision(const TransformerConfig& model, const ParallelMapping& m) {
  const int64_t chunks = int64_t{m.pipeline} * m.chunks;
  if (m.counted_ends) return " with embedding and output layer";
  if ((model.layers + 2) % chunks == 0) {
    return "; ends (embedding and output layer count as layers) would do";
  }
  if (model.layers < chunks) return "";
  return fmt::format("; layers=N,N,... says how many each of the {} chunks has", chunks);
}

absl::Status CheckDivision(const TransformerConfig& model, const ParallelMapping& m) {
  if (!m.layers.empty()) return CheckLayers(model, m);
  const int64_t counted = model.layers + (m.counted_ends ? 2 : 0);
  if (counted % (int64_t{m.pipeline} * m.chunks) != 0) {
    return Infeasible("C1: mapping {}: {} stages of {} chunks do not divide {} layers{}",
                      ToString(m), m.pipeline, m.chunks, model.layers, OtherDivision(model, m));
  }
  if (m.counted_ends && m.pipeline == 1) {
    return Infeasible("C1: mapping {}: ends needs a pipeline", ToString(m));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStages(const TransformerConfig& model, const ParallelMapping& m) {
  FORETRACE_RETURN_IF_ERROR(CheckDivision(model, m));
  return CheckSchedule(m);
}

absl::Status CheckMapping(const TransformerConfig& model, const ParallelMapping& m,
                          int64_t devices) {
  FORETRACE_RETURN_IF_ERROR(CheckDegrees(m));
  if (devices > 0 && m.devices() != devices) {
    return Infeasible(
        "C3: mapping {} uses {} devices of {}; tp * cp * pp * dp must equal their number",
        ToString(m), m.devices(), devices);
  }
  FORETRACE_RETURN_IF_ERROR(CheckSharding(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckContext(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckExperts(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckDivision(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckKeptInputs(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckModules(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckTrained(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckLoad(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckPrecision(model, m));
  FORETRACE_RETURN_IF_ERROR(CheckBatch(m));
  return CheckSchedule(m);
}

}  // namespace foretrace
