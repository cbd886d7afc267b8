// Columns of a table of training jobs, by the names that tables and trainers give them.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "absl/strings/numbers.h"

#include "simulator/base/csv.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/utf8.h"
#include "simulator/mapping/training_row_fields.h"

namespace foretrace {
namespace {

// Other names of columns: SimuMax's, those of arguments of Megatron, DeepSpeed, torchtitan and
// HuggingFace, and those of tables.
using Names = std::pair<std::string_view, std::string_view>;  // another, and its own
constexpr Names kSynonyms[] = {{"model_name", "model"},
                               {"num_gpus", "gpus"},
                               {"n_gpus", "gpus"},
                               {"#gpus", "gpus"},
                               {"#_gpus", "gpus"},
                               {"world_size", "gpus"},
                               {"gpu_type", "gpu"},
                               {"gpu_model", "gpu"},
                               {"device", "gpu"},
                               {"accelerator", "gpu"},
                               {"nproc_per_node", "gpus_per_node"},
                               {"num_gpus_per_node", "gpus_per_node"},
                               {"dtype", "precision"},
                               {"software", "framework"},
                               {"stack", "framework"},
                               {"num_layers", "layers"},
                               {"num_hidden_layers", "layers"},
                               {"hidden_size", "hidden"},
                               {"num_attention_heads", "heads"},
                               {"num_heads", "heads"},
                               {"num_key_value_heads", "kv_heads"},
                               {"num_kv_heads", "kv_heads"},
                               {"num_query_groups", "kv_heads"},
                               {"ffn_hidden_size", "ffn"},
                               {"intermediate_size", "ffn"},
                               {"vocab_size", "vocab"},
                               {"num_experts", "experts"},
                               {"topk", "top_k"},
                               {"moe_router_topk", "top_k"},
                               {"first_k_dense_replace", "dense_layers"},
                               {"seq_len", "seq"},
                               {"seq_length", "seq"},
                               {"sequence_length", "seq"},
                               {"micro_batch_size", "micro_batch"},
                               {"mbs", "micro_batch"},
                               {"micro_batches", "grad_accum"},
                               {"num_microbatches", "grad_accum"},
                               {"gradient_accumulation_steps", "grad_accum"},
                               {"global_batch_size", "global_batch"},
                               {"gbs", "global_batch"},
                               {"pp_schedule", "schedule"},
                               {"pipeline_schedule", "schedule"},
                               {"pipeline_parallel_schedule", "schedule"},
                               {"vpp", "vp"},
                               {"vp_size", "vp"},
                               {"vpp_size", "vp"},
                               {"virtual_pipeline_parallel", "vp"},
                               {"virtual_pipeline_model_parallel_size", "vp"},
                               {"expert_tensor_parallel_size", "etp"},
                               {"expert_tensor_parallel_degree", "etp"},
                               {"data_parallel_replicate_degree", "dp_replicate"},
                               {"data_parallel_shard_degree", "dp_shard"},
                               {"num_distributed_optimizer_instances", "dp_replicate"},
                               {"cp_comm", "cp_comm_type"},
                               {"context_parallel_comm_type", "cp_comm_type"},
                               {"zero_stage", "sharding"},
                               {"zero", "sharding"},
                               {"zs", "sharding"},
                               {"zero_level", "sharding"},
                               {"distributed_optimizer", "use_distributed_optimizer"},
                               {"recomputation", "recompute"},
                               {"recompute_granularity", "recompute"},
                               {"activation_checkpointing", "recompute"},
                               {"activation_checkpoint", "recompute"},
                               {"checkpoint_num_layers", "recompute_num_layers"},
                               {"activations_checkpoint_num_layers", "recompute_num_layers"},
                               {"activations_checkpoint_method", "recompute_method"},
                               {"activations_checkpoint_granularity", "recompute"},
                               {"step_time_s", "step_s"},
                               {"iteration_s", "step_s"},
                               {"iteration_time_s", "step_s"},
                               {"time_per_iteration_s", "step_s"},
                               {"step_time_ms", "step_ms"},
                               {"ms/step", "step_ms"},
                               {"ms/iteration", "step_ms"},
                               {"s/step", "step_s"},
                               {"s/iteration", "step_s"},
                               {"seconds_per_step", "step_s"},
                               {"peak_memory_gib", "memory_gib"},
                               {"max_memory_gib", "memory_gib"},
                               {"peak_memory_gb", "memory_gb"},
                               {"max_memory_gb", "memory_gb"},
                               {"iteration_ms", "step_ms"},
                               {"iteration_time_ms", "step_ms"},
                               {"elapsed_time_per_iteration_ms", "step_ms"},
                               {"tokens/s/gpu", "tokens_per_s_per_gpu"},
                               {"tokens_per_sec_per_gpu", "tokens_per_s_per_gpu"},
                               {"tokens_per_second_per_gpu", "tokens_per_s_per_gpu"},
                               {"max_allocated_gib", "memory_gib"},
                               {"max_reserved_gib", "memory_reserved_gib"}};
constexpr Names kDegrees[] = {
    {"tensor", "tp"}, {"pipeline", "pp"}, {"data", "dp"}, {"context", "cp"}, {"expert", "ep"}};

// What else is read, of which two cells must not differ.
constexpr std::string_view kOwn[] = {"model",
                                     "gpus",
                                     "gpu",
                                     "precision",
                                     "framework",
                                     "layers",
                                     "hidden",
                                     "heads",
                                     "ffn",
                                     "vocab",
                                     "seq",
                                     "tp",
                                     "pp",
                                     "dp",
                                     "cp",
                                     "vp",
                                     "ep",
                                     "etp",
                                     "top_k",
                                     "experts",
                                     "date",
                                     "recompute",
                                     "recompute_num_layers",
                                     "recompute_method",
                                     "recompute_modules",
                                     "cp_comm_type",
                                     "sharding",
                                     "step_s",
                                     "step_ms",
                                     "mapping",
                                     "kv_heads",
                                     "micro_batch",
                                     "grad_accum",
                                     "dp_replicate",
                                     "dp_shard",
                                     "global_batch",
                                     "dense_layers",
                                     "gpus_per_node",
                                     "tokens_per_s_per_gpu",
                                     "memory_gib",
                                     "memory_reserved_gib"};

// What is read besides.
constexpr std::string_view kAlso[] = {"",
                                      "case",
                                      "source",
                                      "table",
                                      "note",
                                      "overlap",
                                      "oom",
                                      "schedule",
                                      "head_dim",
                                      "use_distributed_optimizer",
                                      "partition_activations",
                                      "distribute_saved_activations",
                                      "cpu_checkpointing",
                                      "checkpoint_in_cpu"};
// What tables tell of a job that no prediction needs: results and what follows from them, places.
constexpr std::string_view kTold[] = {
    "params_b", "params", "tflops_per_gpu",   "tflops/gpu", "tflops",
    "mfu_pct",  "mfu",    "hfu_pct",          "hfu",        "url",
    "link",     "id",     "tokens_per_s",     "tokens/s",   "comment",
    "comments", "name",   "steady_iterations"};

// "tensor_parallel", "tp_size", "tensor_model_parallel_size" of tp; empty: no other name.
std::string_view OwnName(std::string_view name) {
  for (const auto& [other, own] : kSynonyms) {
    if (name == other) return own;
  }
  for (const auto& [word, own] : kDegrees) {
    if (name == fmt::format("{}_size", own) || name == fmt::format("{}_parallel", word)) return own;
    for (const char* form : {"{}_parallel_size", "{}_model_parallel_size", "{}_parallelism",
                             "{}_parallel_degree", "{}_model_parallel"}) {
      if (name == fmt::format(fmt::runtime(form), word)) return own;
    }
  }
  return "";
}

// In lower case, words joined by '_' ("Memory (GiB)": memory_gib), without what spreadsheets put
// before the first one.
std::string ColumnName(std::string name) {
  RemoveByteOrderMark(name);
  const size_t first = name.find_first_not_of(" \t\""), last = name.find_last_not_of(" \t\"");
  if (first == std::string::npos) return "";
  name = LowerCase(name.substr(first, last + 1 - first));
  std::ranges::replace_if(
      name, [](char c) { return c == ' ' || c == '-'; }, '_');
  std::erase_if(name, [](char c) { return std::string_view("()[]").find(c) != std::string::npos; });
  return name;
}

}  // namespace

TableHeader::TableHeader(std::string_view line) : separator_(SeparatorOf(line)) {
  const std::vector<std::string> names = SplitCsvLine(line, separator_);
  width_ = names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = ColumnName(names[i]);
    columns_[name].push_back({name, i});
  }
  // Names of its own stand over others.
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = ColumnName(names[i]);
    const std::string own(OwnName(name));
    if (!own.empty()) columns_[own].push_back({name, i});
  }
}

std::vector<std::string> TableHeader::Unread() const {
  const auto among = [](std::span<const std::string_view> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::vector<std::string> unread;
  for (const auto& [name, columns] : columns_) {
    const std::string_view own = OwnName(name);
    const std::string_view read = own.empty() ? std::string_view(name) : own;
    const bool memory = read.starts_with("memory");
    if (memory || among(kOwn, read) || among(kAlso, read) || among(kTold, read)) continue;
    unread.push_back(columns.front().name);
  }
  return unread;
}

std::span<const TableHeader::Column> TableHeader::Of(const std::string& column) const {
  const auto it = columns_.find(column);
  return it == columns_.end() ? std::span<const Column>() : std::span<const Column>(it->second);
}

std::string Fields::Differing() const {
  for (const std::string_view own : kOwn) {
    const std::span<const TableHeader::Column> columns = header_.Of(std::string(own));
    const TableHeader::Column* first = nullptr;
    for (const TableHeader::Column& column : columns) {
      if (Cell(column.index).empty()) continue;
      if (first == nullptr) first = &column;
      const std::string a = Cell(first->index), b = Cell(column.index);
      // Texts have many ways of saying the same ("ZeRO-1", "1"): that of the first name stands.
      double x = 0, y = 0;
      if (!absl::SimpleAtod(a, &x) || !absl::SimpleAtod(b, &y) || x == y) continue;
      return fmt::format("{} '{}' and {} '{}' contradict one another", first->name, a, column.name,
                         b);
    }
  }
  return "";
}

}  // namespace foretrace
