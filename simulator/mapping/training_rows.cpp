#include "simulator/mapping/training_rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

#include "simulator/base/csv.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {
namespace {

constexpr std::array<std::string_view, 26> kColumns = {"model",
                                                       "layers",
                                                       "hidden",
                                                       "heads",
                                                       "kv_heads",
                                                       "ffn",
                                                       "vocab",
                                                       "seq",
                                                       "gpus",
                                                       "gpu",
                                                       "gpus_per_node",
                                                       "tp",
                                                       "pp",
                                                       "dp",
                                                       "cp",
                                                       "vp",
                                                       "ep",
                                                       "micro_batch",
                                                       "grad_accum",
                                                       "global_batch",
                                                       "precision",
                                                       "sharding",
                                                       "recompute",
                                                       "framework",
                                                       "oom",
                                                       "step_s"};

bool Contains(const std::string& text, std::string_view part) {
  return LowerCase(text).find(part) != std::string::npos;
}

// Of NeMo's recipes for speed, which adapt the query, key and value product alone
// (nemo/collections/llm/recipes, finetune_performance_optimizations).
constexpr int32_t kAssumedRank = 16;

// ClusterParameters::eight_bit_share of operands with a scale for each row. Llama 3 8B on eight
// H100 takes 173.6 us a token and device in bf16, 139.2 with scales by tensor and 155.7 by row
// (torchtitan, commit 7a04053: 5,760, 7,186 and 6,424 tokens a second); of the 84 us of its
// products in bf16 (52.5 GFLOP a token at 624 TFLOP/s) the 16.5 between both are 0.20.
constexpr double kScaledByRow = 0.58 + 0.20;

// One line by the names of its columns.
class Fields {
 public:
  Fields(const std::map<std::string, size_t>& header, std::vector<std::string> values)
      : header_(header), values_(std::move(values)) {}

  std::string Text(const std::string& column) const {
    const auto it = header_.find(column);
    return it == header_.end() || it->second >= values_.size() ? "" : values_[it->second];
  }
  bool States(const std::string& column) const {
    const std::string text = Text(column);
    return !text.empty() && text != "None";
  }
  // A positive whole number; `absent` where none is stated. Otherwise says why in `error`.
  int64_t Int(const std::string& column, int64_t absent, std::string& error) const {
    if (!States(column)) return absent;
    const std::string text = Text(column);
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = code == std::errc() && end == text.data() + text.size();
    if (whole && value > 0 && value <= int64_t{1} << 30) return value;
    if (error.empty()) error = fmt::format("{} '{}' is not a positive whole number", column, text);
    return absent;
  }
  double Number(const std::string& column) const {
    const std::string text = Text(column);
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    return code == std::errc() && end == text.data() + text.size() ? value : 0;
  }

 private:
  const std::map<std::string, size_t>& header_;
  std::vector<std::string> values_;
};

// What is divided over replicas, as the row says it; -1: it does not.
int32_t ZeroOf(const std::string& sharding) {
  if (Contains(sharding, "fsdp") || Contains(sharding, "zero-3")) return 3;
  if (Contains(sharding, "hsdp") || Contains(sharding, "hybrid")) return 3;
  if (Contains(sharding, "zero-2")) return 2;
  if (Contains(sharding, "zero-1") || Contains(sharding, "distributed optimizer")) return 1;
  return Contains(sharding, "none") ? 0 : -1;
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

// What software does without being told, by what the row calls it.
void ApplyStack(const Fields& f, std::span<const SoftwareStack> stacks, TrainingRow& row) {
  const std::string framework = f.Text("framework"), sharding = f.Text("sharding");
  const std::string date = f.States("date") ? f.Text("date") : "";
  ParallelMapping& m = row.mapping;
  row.stack = date.empty() ? framework : framework + " " + date;
  const SoftwareStack* stack = FindStack(stacks, framework);
  const StackRelease release = stack == nullptr ? OfUnknownSoftware() : stack->At(date, row.model);
  if (stack != nullptr) {
    row.family = stack->name;
    row.release = release.since;
  } else {
    row.notes.push_back(fmt::format("framework '{}': {}", framework, kUnknownSoftware));
  }
  const int32_t stated = ZeroOf(sharding);
  m.zero = std::max(stated, release.zero);
  if (Contains(sharding, "pure")) m.gradient_bytes = 2;
  m.overlap_gradients = release.overlap_gradients;
  m.overlap_tensor = m.tensor == 1 || release.overlap_tensor;
  if (LowerCase(f.Text("overlap")) == "none" || Contains(f.Text("note"), "every overlap off")) {
    m.overlap_gradients = false;
    m.overlap_tensor = m.tensor == 1;
  }
  m.sequence_parallel = m.tensor > 1 && release.sequence_parallel;
  m.async_tensor = m.sequence_parallel && Contains(f.Text("note"), "async tp");
  if (Contains(sharding, "hsdp") || Contains(sharding, "hybrid")) {
    // Within each node, as HYBRID_SHARD is unless told otherwise.
    const int32_t inside = std::max(row.gpus_per_node / m.tensor, 1);
    if (m.replicas() % inside == 0 && inside > 1 && inside < m.replicas()) m.hybrid = inside;
  }
  row.config.fused_attention = release.fused_attention;
  row.config.dropout = release.dropout;
  PackDocuments(f, release, row);
  row.attention_slowdown = release.attention_slowdown;
  const std::string note = f.Text("note");
  const bool compiled = Contains(note, "torch.compile") && !Contains(note, "no torch.compile");
  row.fused_pointwise = release.fused_pointwise || compiled;
  row.config.gradient_placeholders = release.gradient_placeholders;
  row.config.eager = release.eager && !compiled;
  row.config.loss = compiled && release.compiled_loss ? LossForm::kFused : release.loss;
  row.fused_accumulation = release.fused_accumulation;
  row.gathers_ahead = release.gathers_ahead;
  row.per_parameter_sharding = release.per_parameter_sharding;
  row.dynamic_scaling = release.dynamic_scaling;
  row.eight_bit_gathers = Contains(sharding, "float8 all-gather");
  row.blocking_transfers = release.blocking_transfers;
  m.ring = m.context > 1 && release.ring_attention;
  const std::string recompute = LowerCase(f.Text("recompute"));
  row.recompute_stated = !recompute.empty();
  if (recompute.empty() || recompute == "none") return;
  m.recompute = recompute.starts_with("full")                              ? Recompute::kFull
                : recompute.find("every other layer") != std::string::npos ? Recompute::kAlternate
                                                                           : release.selective;
}

// Sizes that the row states replace the named model's.
void ReadSizes(const Fields& f, TransformerConfig& c, std::string& error) {
  const auto set = [&](const char* column, int64_t& size) { size = f.Int(column, size, error); };
  const int64_t hidden = c.hidden, heads = c.heads;
  set("layers", c.layers);
  set("hidden", c.hidden);
  set("heads", c.heads);
  set("kv_heads", c.kv_heads);
  set("ffn", c.ffn);
  set("vocab", c.vocabulary);
  set("seq", c.sequence);
  if (c.latent == 0 && (c.hidden != hidden || c.heads != heads)) c.head_size = 0;
  if (c.latent > 0) c.kv_heads = c.heads;
  set("head_dim", c.head_size);
  if (f.States("seq")) c.positions = 0;
}

std::string MissingSize(const TransformerConfig& c) {
  const std::pair<const char*, int64_t> sizes[] = {{"layers", c.layers},
                                                   {"hidden", c.hidden},
                                                   {"heads", c.heads},
                                                   {"vocab", c.vocabulary},
                                                   {"seq", c.sequence}};
  for (const auto& [what, size] : sizes) {
    if (size <= 0) return what;
  }
  return "";
}

// Whether the stated tokens a second and device are those of this batch in the stated step.
bool TokensAreOfBatch(const Fields& f, int64_t batch, int64_t sequence) {
  const double stated = f.Number("tokens_per_s_per_gpu") * f.Number("gpus") * f.Number("step_s");
  const double tokens = static_cast<double>(batch) * static_cast<double>(sequence);
  return stated > 0 && std::abs(stated / tokens - 1) < 0.05;
}

void ReadMapping(const Fields& f, TrainingRow& row, std::string& error) {
  ParallelMapping& m = row.mapping;
  const auto degree = [&](const char* column) {
    return static_cast<int32_t>(f.Int(column, 1, error));
  };
  row.gpus = degree("gpus");
  row.gpus_per_node = static_cast<int32_t>(f.Int("gpus_per_node", 8, error));
  m.tensor = degree("tp");
  m.pipeline = degree("pp");
  m.context = degree("cp");
  m.chunks = degree("vp");
  m.expert = degree("ep");
  const bool whole = Contains(f.Text("note"), "expert tensor parallel 1");
  m.expert_tensor = whole ? 1 : static_cast<int32_t>(f.Int("etp", 0, error));
  const int64_t model = int64_t{m.tensor} * m.pipeline * m.context;
  m.data = static_cast<int32_t>(f.Int("dp", std::max<int64_t>(row.gpus / model, 1), error));
  if (error.empty() && model * m.data != row.gpus) {
    error = fmt::format("tp {} x pp {} x cp {} x dp {} is {}, but gpus says {}", m.tensor,
                        m.pipeline, m.context, m.data, model * m.data, row.gpus);
  }
  const int64_t batch = f.Int("global_batch", 0, error);
  const int64_t accumulation = f.Int("grad_accum", 0, error);
  int64_t micro = f.Int("micro_batch", 0, error);
  if (error.empty() && batch == 0) error = "no global_batch is stated";
  if (micro == 0 && accumulation > 0 && batch > 0) micro = batch / (m.data * accumulation);
  if (micro == 0) {
    micro = 1;
    row.notes.emplace_back("micro-batches of one sample, as none is stated");
  }
  m.global_batch = static_cast<int32_t>(batch);
  m.micro_batch = static_cast<int32_t>(micro);
  if (error.empty() && batch % (m.data * micro) != 0) {
    error = fmt::format("global_batch {} is no multiple of {} replicas of micro-batch {}", batch,
                        m.data, micro);
  }
  if (error.empty() && accumulation > 0 && batch != m.data * micro * accumulation) {
    const std::string contradiction =
        fmt::format("global_batch {} is not dp {} x micro_batch {} x grad_accum {}", batch, m.data,
                    micro, accumulation);
    if (!TokensAreOfBatch(f, batch, row.config.sequence)) {
      error = contradiction;
    } else {
      row.notes.push_back(contradiction + ": the batch is taken, as the tokens a second are of it");
    }
  }
}

// Products in 8 bits and adapters beside frozen weights.
void ReadVariants(const Fields& f, TrainingRow& row) {
  row.mapping.fp8 = Contains(f.Text("precision"), "fp8") || Contains(f.Text("precision"), "float8");
  if (Contains(f.Text("precision"), "rowwise")) row.eight_bit_share = kScaledByRow;
  if (!Contains(f.Text("table"), "lora")) return;
  row.mapping.lora = kAssumedRank;
  row.notes.push_back(fmt::format(
      "LoRA of rank {} on queries, keys and values, as neither is stated", kAssumedRank));
}

// What a prediction would pass over in silence.
std::string NotCovered(const Fields& f) {
  if (Contains(f.Text("sharding"), "cpu")) return "offloading to the CPU is not covered";
  return "";
}

// Of what is not computed in 8 bits: bfloat16 there.
DType PrecisionOf(const std::string& text) {
  const std::string precision = LowerCase(text);
  if (Contains(text, "fp8") || Contains(text, "float8")) return DType::kBFloat16;
  if (precision.starts_with("bf16")) return DType::kBFloat16;
  if (precision.starts_with("fp16")) return DType::kFloat16;
  return precision.starts_with("fp32") || precision.starts_with("tf32") ? DType::kFloat32
                                                                        : DType::kUnknown;
}

absl::Status ReadRow(const Fields& f, const ModelByName& find,
                     std::span<const SoftwareStack> stacks, TrainingRow& row) {
  std::string error = NotCovered(f);
  row.model = f.Text("model");
  row.gpu = f.Text("gpu");
  row.source = f.Text("source");
  FORETRACE_ASSIGN_OR_RETURN(const auto known, find(row.model, f.States("hidden")));
  if (known) row.config = *known;
  if (known && known->name != row.model) {
    row.notes.push_back(fmt::format("the model is taken to be {}", known->name));
  }
  row.config.name = row.model;
  ReadSizes(f, row.config, error);
  ReadMapping(f, row, error);
  ReadVariants(f, row);
  ApplyStack(f, stacks, row);
  const DType dtype = PrecisionOf(f.Text("precision"));
  if (dtype != DType::kUnknown) row.config.dtype = dtype;
  if (error.empty() && dtype == DType::kUnknown) {
    error = fmt::format("precision '{}' is not known", f.Text("precision"));
  }
  if (const std::string missing = MissingSize(row.config); error.empty() && !missing.empty()) {
    error = known ? fmt::format("model '{}': {} is not stated", row.model, missing)
                  : fmt::format("no model '{}' is known, and {} is not stated", row.model, missing);
  }
  if (error.empty()) {
    const absl::Status sizes = CheckTransformer(WithDefaults(row.config));
    if (!sizes.ok()) error = std::string(sizes.message());
  }
  const double step = f.Number("step_s");
  row.out_of_memory = f.Text("oom") == "1";
  if (error.empty() && !(step > 0) && !row.out_of_memory) {
    error = fmt::format("step_s '{}' is not a positive number", f.Text("step_s"));
  }
  row.measured = SimTime::FromSeconds(row.out_of_memory ? 0 : std::max(step, 0.0));
  if (f.Number("memory_GB") > 0) row.memory_gib = f.Number("memory_GB");
  ParallelMapping& m = row.mapping;
  const int64_t chunks = int64_t{m.pipeline} * m.chunks;
  if (row.config.layers % chunks != 0 && (row.config.layers + 2) % chunks == 0) {
    m.counted_ends = true;
  } else if (row.config.layers % chunks != 0 && row.config.layers > chunks) {
    m.layers = SpreadLayers(row.config.layers, chunks);
    row.notes.push_back(
        fmt::format("{} layers on {} chunks: the first {} have one more, as nothing else is stated",
                    row.config.layers, chunks, row.config.layers % chunks));
  }
  if (error.empty()) {
    const absl::Status ok = CheckMapping(row.config, m, row.gpus);
    if (!ok.ok()) error = std::string(ok.message());
  }
  row.refused = std::move(error);
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, size_t>> ReadHeader(const std::string& path,
                                                         std::istream& file) {
  std::string line;
  if (!std::getline(file, line)) return InvalidInput("{}: the file is empty", path);
  std::map<std::string, size_t> header;
  const std::vector<std::string> names = SplitCsvLine(line);
  for (size_t i = 0; i < names.size(); ++i) header.emplace(names[i], i);
  for (const std::string_view column : kColumns) {
    if (!header.contains(std::string(column))) {
      return InvalidInput("{}:1: column '{}' is missing", path, column);
    }
  }
  return header;
}

}  // namespace

bool IsTrainingTable(const std::string& path) {
  const auto text = ReadTextFile(path, kMaxTableBytes);
  if (!text.ok()) return false;
  std::istringstream file(*text);
  return ReadHeader(path, file).ok();
}

absl::StatusOr<std::vector<TrainingRow>> LoadTrainingRows(const std::string& path,
                                                          const ModelByName& find,
                                                          std::span<const SoftwareStack> stacks) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string content, ReadTextFile(path, kMaxTableBytes));
  std::istringstream file(content);
  FORETRACE_ASSIGN_OR_RETURN(const auto header, ReadHeader(path, file));
  std::vector<TrainingRow> rows;
  std::string text;
  for (int number = 2; std::getline(file, text); ++number) {
    if (text.find_first_not_of(" \r") == std::string::npos) continue;
    TrainingRow row;
    row.name = fmt::format("{}:{}", path.substr(path.rfind('/') + 1), number);
    FORETRACE_RETURN_IF_ERROR(ReadRow(Fields(header, SplitCsvLine(text)), find, stacks, row));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return InvalidInput("{}: no rows", path);
  return rows;
}

void AssumeRecomputation(TrainingRow& row, Bytes memory) {
  if (row.recompute_stated || memory == Bytes()) return;
  // By half: software keeps less than all, and how much differs.
  const Bytes clearly(memory.count() + memory.count() / 2);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (recompute == Recompute::kSelective && row.config.fused_attention) continue;
    ParallelMapping mapping = row.mapping;
    mapping.recompute = recompute;
    if (recompute != Recompute::kFull && MemoryOf(row.config, mapping).total() > clearly) continue;
    if (recompute == row.mapping.recompute) return;
    row.mapping = mapping;
    row.notes.push_back(fmt::format(
        "{} recomputation, without which the run would not fit in memory", Name(recompute)));
    return;
  }
}

}  // namespace foretrace
