// What a row's software does.

#include <algorithm>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/stack_choices.h"
#include "simulator/mapping/training_row_fields.h"

namespace foretrace {
namespace {

// Of NeMo's recipes for speed, which adapt the query, key and value GEMM alone
// (nemo/collections/llm/recipes, finetune_performance_optimizations).
constexpr int32_t kAssumedRank = 16;

// ClusterParameters::eight_bit_share of operands with a scale for each row. Llama 3 8B on eight
// H100 takes 173.6 us a token and device in bf16, 139.2 with scales by tensor and 155.7 by row
// (torchtitan, commit 7a04053: 5,760, 7,186 and 6,424 tokens a second); of the 84 us of its
// GEMMs in bf16 (52.5 GFLOP a token at 624 TFLOP/s) the 16.5 between both are 0.20.
constexpr double kScaledByRow = 0.58 + 0.20;

// What is divided over replicas, as the row says it; -1: it does not. PyTorch's strategies are
// named in torch/distributed/fsdp/api.py, ShardingStrategy.
int32_t ZeroOf(const std::string& sharding) {
  constexpr std::pair<std::string_view, int32_t> kWords[] = {
      {"shard_grad_op", 2}, {"zero-2", 2},   {"zero2", 2},
      {"zero-1", 1},        {"zero1", 1},    {"distributed optimizer", 1},
      {"fsdp", 3},          {"zero-3", 3},   {"zero3", 3},
      {"hsdp", 3},          {"hybrid", 3},   {"full_shard", 3},
      {"none", 0},          {"no_shard", 0}, {"ddp", 0}};
  for (const auto& [word, zero] : kWords) {
    if (Contains(sharding, word)) return zero;
  }
  return -1;
}

bool IsFineTuning(const Fields& f) {
  const std::string table = f.Text("table");
  return Contains(table, "lora") || Contains(table, "sft") || Contains(table, "finetun");
}

void PackDocuments(const Fields& f, const StackRelease& release, TrainingRow& row) {
  if (release.packed_document == 0 || !IsFineTuning(f)) return;
  row.config.window = release.packed_document;
  row.config.window_pieces = true;
  row.config.global_every = 0;
  row.notes.push_back(fmt::format("sequences packed of documents of {} tokens, as none is stated",
                                  release.packed_document));
}

// What most software does that no file describes.
StackRelease OfUnknownSoftware() {
  StackRelease release;
  release.fused_attention = release.sequence_parallel = true;
  release.overlap_tensor = release.overlap_gradients = true;
  return release;
}

// GEMMs in 8 bits and adapters beside frozen weights.
void ReadVariants(const Fields& f, TrainingRow& row) {
  const std::string precision = f.Text("precision");
  row.mapping.mxfp8 = Contains(precision, "mxfp8");
  row.mapping.nvfp4 = Contains(precision, "fp4");
  row.mapping.fp8 = !row.mapping.mxfp8 && !row.mapping.nvfp4 &&
                    (Contains(precision, "fp8") || Contains(precision, "float8"));
  if (Contains(f.Text("precision"), "rowwise")) row.eight_bit_share = kScaledByRow;
  if (Contains(f.Text("mapping"), "lora") || !Contains(f.Text("table"), "lora")) return;
  row.mapping.lora = kAssumedRank;
  row.notes.push_back(fmt::format(
      "LoRA of rank {} on queries, keys and values, as neither is stated", kAssumedRank));
}

const StackRelease* FindRelease(const Fields& f, std::span<const SoftwareStack> stacks,
                                TrainingRow& row) {
  const std::string framework = f.Text("framework");
  const std::string date = f.States("date") ? f.Text("date") : "";
  row.stack = date.empty() ? framework : framework + " " + date;
  const SoftwareStack* stack = FindStack(stacks, framework);
  if (stack == nullptr) {
    row.notes.push_back(fmt::format("framework '{}': {}", framework, kUnknownSoftware));
    return nullptr;
  }
  const StackRelease& release = stack->At(date, row.taken_as);
  row.family = stack->name;
  row.release = release.since;
  return &release;
}

void SetDivision(const Fields& f, TrainingRow& row) {
  const std::string sharding = f.Text("sharding");
  ParallelMapping& m = row.mapping;
  const int32_t stated = ZeroOf(sharding);
  // A distributed optimizer is the least that software of this kind divides.
  m.zero = stated < 0 || stated == 1 ? std::max(stated, row.software.zero) : stated;
  SetChoices(row.software, row.config, m);
  if (Contains(sharding, "pure")) m.gradient_bytes = 2;
  row.eight_bit_gathers = Contains(sharding, "float8 all-gather");
  m.offload = Contains(sharding, "cpu");
  m.offload_weights = m.zero == 3 && (Contains(sharding, "parameters on cpu") ||
                                      Contains(sharding, "full cpu offload") ||
                                      (Contains(sharding, "fsdp") && m.offload));
  if (Contains(sharding, "hsdp") || Contains(sharding, "hybrid")) {
    // Within each node, as HYBRID_SHARD is unless told otherwise.
    m.hybrid = 0;
    DivideAmong(std::max(row.gpus_per_node / m.tensor, 1), m);
  }
}

void SetOverlap(const Fields& f, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  if (LowerCase(f.Text("overlap")) == "none" || Contains(f.Text("note"), "every overlap off")) {
    m.overlap_gradients = m.chunked_tensor = false;
    m.overlap_tensor = m.tensor == 1;
  }
  m.async_tensor = m.sequence_parallel && Contains(f.Text("note"), "async tp");
}

// Of a row that does not say how its experts are divided and could not have run as software does
// by itself: whole experts, of which every device of a tensor-parallel group has its own.
void SetExpertWidth(TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  if (m.expert_tensor > 0 || !m.sequence_parallel || m.expert_groups() % m.expert == 0) return;
  if (m.expert_groups() * m.tensor % m.expert != 0) return;
  m.expert_tensor = 1;
  row.notes.push_back(
      fmt::format("whole experts, as {} ranks of expert parallelism do not divide dp {} x cp {}",
                  m.expert, m.data, m.context));
}

void SetKernelsOf(const Fields& f, TrainingRow& row) {
  const std::string note = f.Text("note");
  const bool compiled = Contains(note, "torch.compile") && !Contains(note, "no torch.compile");
  row.software.compiled = false;
  if (compiled) Compile(row.software);
  SetKernels(row.software, row.config);
}

void SetRecomputation(const Fields& f, TrainingRow& row) {
  const std::string recompute = LowerCase(f.Text("recompute"));
  const StackRelease& software = row.software;
  row.recompute_stated = !recompute.empty() || software.recompute != Recompute::kNone;
  if (recompute.empty()) {
    row.mapping.recompute = software.recompute;
  } else if (recompute != "none") {
    row.mapping.recompute = recompute.starts_with("full")              ? Recompute::kFull
                            : Contains(recompute, "every other layer") ? Recompute::kAlternate
                                                                       : software.selective;
  }
}

}  // namespace

void ReadSoftware(const Fields& f, std::span<const SoftwareStack> stacks, TrainingRow& row) {
  const StackRelease* release = FindRelease(f, stacks, row);
  row.software = release == nullptr ? OfUnknownSoftware() : *release;
  ReadVariants(f, row);
  SetDivision(f, row);
  SetOverlap(f, row);
  SetExpertWidth(row);
  SetKernelsOf(f, row);
  PadVocabulary(row.software, row.mapping.tensor, row.config);
  PackDocuments(f, row.software, row);
  SetRecomputation(f, row);
}

void ApplySoftware(const TrainingRow& row, const std::string& chip, ClusterParameters& cluster) {
  SetCluster(row.software, chip, cluster);
  cluster.eight_bit_share *= row.eight_bit_share / ClusterParameters().eight_bit_share;
  cluster.eight_bit_gathers = row.eight_bit_gathers;
}

}  // namespace foretrace
