#include "simulator/workload/workload_yaml.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/workload/map_reader.h"
#include "simulator/workload/multi_branch.h"
#include "simulator/workload/operator_call_yaml.h"
#include "simulator/workload/published_config.h"
#include "simulator/workload/tensor_parallel.h"
#include "simulator/workload/transformer.h"

namespace foretrace {
namespace {

constexpr size_t kMaxOperators = 1'000'000;
// yaml-cpp recurses once per level; a workload file needs five.
constexpr int kMaxNesting = 32;

void ReadSizes(MapReader& in, TransformerConfig& c) {
  in.Int("hidden", c.hidden);
  in.Int("layers", c.layers);
  in.Int("decoder_layers", c.decoder_layers);
  in.Int("heads", c.heads);
  in.Int("kv_heads", c.kv_heads);
  in.Int("head_size", c.head_size);
  in.Int("ffn", c.ffn);
  in.Int("vocabulary", c.vocabulary);
  in.Int("sequence", c.sequence);
  in.Int("positions", c.positions);
  in.Int("experts", c.experts);
  in.Int("top_k", c.top_k);
  in.Int("expert_groups", c.expert_groups);
  in.Int("chosen_groups", c.chosen_groups);
  in.Bool("fused_attention", c.fused_attention);
  in.Bool("dropout", c.dropout);
  in.Bool("gated", c.gated);
  in.Bool("biases", c.biases);
  in.Bool("qkv_biases", c.qkv_biases);
  in.Bool("norm_biases", c.norm_biases);
  in.Bool("tied", c.tied);
  in.Bool("learned_positions", c.learned_positions);
  in.Bool("rotary", c.rotary);
  in.Bool("qk_norm", c.qk_norm);
  in.Bool("attention_gate", c.attention_gate);
  in.Bool("shared_gate", c.shared_gate);
  in.Bool("embedding_norm", c.embedding_norm);
  in.Bool("clamped", c.clamped);
  in.Bool("post_norms", c.post_norms);
  in.Int("parallel_norms", c.parallel_norms);
  in.Int("shared_ffn", c.shared_ffn);
  in.Int("expert_latent", c.expert_latent);
  in.Int("latent", c.latent);
  in.Int("query_latent", c.query_latent);
  in.Int("rotary_size", c.rotary_size);
  in.Int("value_size", c.value_size);
  in.Int("index_heads", c.index_heads);
  in.Int("index_size", c.index_size);
  in.Int("index_keys", c.index_keys);
  in.Int("dense_first", c.dense_first);
  in.Int("experts_every", c.experts_every);
  in.Int("dense_ffn", c.dense_ffn);
  in.Int("further_tokens", c.further_tokens);
  in.String("further_pattern", c.further_pattern);
  in.Int("window", c.window);
  in.Int("global_every", c.global_every);
  in.Bool("window_pieces", c.window_pieces);
  in.String("pattern", c.pattern);
  in.Int("state_heads", c.state_heads);
  in.Int("state_head_size", c.state_head_size);
  in.Int("state_size", c.state_size);
  in.Int("state_groups", c.state_groups);
  in.Int("state_convolution", c.state_convolution);
  in.Int("state_chunk", c.state_chunk);
  in.Int("state_bits", c.state_bits);
  in.Bool("state_norm", c.state_norm);
}

std::optional<TransformerFamily> ParseFamily(std::string_view name) {
  for (int i = 0; i < static_cast<int>(TransformerFamily::kCount); ++i) {
    if (Name(static_cast<TransformerFamily>(i)) == name) return static_cast<TransformerFamily>(i);
  }
  return std::nullopt;
}

absl::StatusOr<ModelFile> ReadTransformer(const YAML::Node& node, const std::string& where) {
  TransformerConfig c;
  MapReader in(node, where);
  std::string family = "gpt", dtype = "float16";
  in.String("family", family);
  in.String("dtype", dtype);
  ReadSizes(in, c);
  std::string weights = "model", expert_weights = "model";
  in.String("weights", weights);
  in.String("expert_weights", expert_weights);
  FORETRACE_RETURN_IF_ERROR(in.Finish());
  const auto known_family = ParseFamily(family);
  if (!known_family.has_value()) {
    return InvalidInput("{}: unknown family '{}'; known are gpt, llama, bert, t5", where, family);
  }
  c.family = *known_family;
  c.dtype = ParseDType(dtype);
  if (c.dtype == DType::kUnknown) return InvalidInput("{}: unknown dtype '{}'", where, dtype);
  for (const auto& [text, format] :
       {std::pair(&weights, &c.weights), std::pair(&expert_weights, &c.expert_weights)}) {
    const auto known = ParseWeightFormat(*text);
    if (!known) {
      return InvalidInput("{}: unknown weights '{}'; known are {}", where, *text,
                          WeightFormatNames());
    }
    *format = *known;
  }
  c.name = family;
  ModelFile file;
  if (WithoutIdleExperts(c).experts != c.experts) {
    file.notes.push_back(
        fmt::format("all {} layers are dense, and none has the {} experts", c.layers, c.experts));
    c = WithoutIdleExperts(c);
  }
  FORETRACE_ASSIGN_OR_RETURN(file.workload, BuildTransformer(c));
  file.transformer = WithDefaults(c);
  return file;
}

absl::StatusOr<ModelFile> Graph(absl::StatusOr<Workload> workload) {
  if (!workload.ok()) return workload.status();
  ModelFile file;
  file.workload = *std::move(workload);
  return file;
}

absl::StatusOr<ModelFile> ReadMmt(const YAML::Node& node, const std::string& where) {
  MultiModalConfig c;
  MapReader in(node, where);
  in.Int("branches", c.branches);
  in.Int("layers", c.layers);
  in.Int("hidden", c.hidden);
  in.Int("heads", c.heads);
  in.Int("ffn", c.ffn);
  in.Int("sequence", c.sequence);
  FORETRACE_RETURN_IF_ERROR(in.Finish());
  return Graph(BuildMultiModalTransformer(c));
}

absl::StatusOr<ModelFile> ReadDlrm(const YAML::Node& node, const std::string& where) {
  DlrmConfig c;
  MapReader in(node, where);
  in.Int("dense_branches", c.dense_branches);
  in.Int("dense_layers", c.dense_layers);
  in.Int("dense_width", c.dense_width);
  in.Int("sparse_branches", c.sparse_branches);
  in.Int("rows", c.rows);
  in.Int("dimension", c.dimension);
  in.Int("bag", c.bag);
  in.Int("top_layers", c.top_layers);
  in.Int("top_width", c.top_width);
  FORETRACE_RETURN_IF_ERROR(in.Finish());
  return Graph(BuildDlrm(c));
}

absl::StatusOr<ModelFile> ReadCandleUno(const YAML::Node& node, const std::string& where) {
  CandleUnoConfig c;
  MapReader in(node, where);
  in.Int("branches", c.branches);
  in.Int("layers", c.layers);
  in.Int("width", c.width);
  FORETRACE_RETURN_IF_ERROR(in.Finish());
  return Graph(BuildCandleUno(c));
}

absl::StatusOr<ModelFile> ReadTwoBranch(const YAML::Node& node, const std::string& where) {
  MapReader in(node, where);
  FORETRACE_RETURN_IF_ERROR(in.Finish());
  return Graph(BuildTwoBranchCaseStudy());
}

absl::Status ReadOperator(const YAML::Node& node, const std::string& where, Operator& op) {
  MapReader in(node, where);
  const YAML::Node calls = in.List("calls");
  in.String("name", op.name);
  in.Int("parameters", op.parameters);
  in.FlopAt("forward_flop", op.forward_flop);
  in.FlopAt("backward_flop", op.backward_flop);
  in.BytesAt("forward_bytes", op.forward_bytes);
  in.BytesAt("backward_bytes", op.backward_bytes);
  in.BytesAt("stash_bytes", op.stash_tensor);
  in.BytesAt("output_bytes", op.output_bytes);
  in.String("function", op.function);
  op.active_parameters = op.parameters;
  FORETRACE_RETURN_IF_ERROR(in.Finish());
  for (size_t i = 0; i < calls.size(); ++i) {
    FORETRACE_ASSIGN_OR_RETURN(OperatorCall call,
                               ReadOperatorCall(calls[i], fmt::format("{}: call {}", where, i)));
    op.calls.push_back(call);
  }
  if (op.name.empty()) return InvalidInput("{}: 'name' is missing", where);
  return absl::OkStatus();
}

// `index`: operators by name.
absl::Status ReadEdges(const YAML::Node& edges, const std::string& where,
                       const std::map<std::string, int32_t>& index, Workload& w) {
  if (!edges.IsDefined() || edges.IsNull()) return absl::OkStatus();
  if (!edges.IsSequence()) return InvalidInput("{}: 'edges' must be a list", where);
  for (const YAML::Node& entry : edges) {
    if (!entry.IsSequence() || entry.size() < 2 || entry.size() > 3 || !entry[0].IsScalar() ||
        !entry[1].IsScalar()) {
      return InvalidInput("{}: an edge must be [from, to] or [from, to, bytes]", where);
    }
    const auto from = index.find(entry[0].Scalar());
    const auto to = index.find(entry[1].Scalar());
    if (from == index.end() || to == index.end()) {
      return InvalidInput("{}: edge [{}, {}] names an operator that is not listed", where,
                          entry[0].Scalar(), entry[1].Scalar());
    }
    OperatorEdge e{from->second, to->second, w.operators[from->second].output_bytes};
    if (entry.size() == 3) {
      double bytes = 0;
      if (!YAML::convert<double>::decode(entry[2], bytes) || !(bytes >= 0 && bytes < 9e15)) {
        return InvalidInput("{}: edge [{}, {}]: bytes must be a number", where, from->first,
                            to->first);
      }
      e.bytes = Bytes(static_cast<int64_t>(bytes));
    }
    w.edges.push_back(e);
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelFile> ReadGraph(const YAML::Node& node, const std::string& where) {
  Workload w;
  w.name = "graph";
  if (!node.IsMap()) return InvalidInput("{}: must be a map with operators and edges", where);
  if (const YAML::Node dtype = node["dtype"]; dtype.IsDefined()) {
    w.dtype = ParseDType(dtype.IsScalar() ? dtype.Scalar() : "");
    if (w.dtype == DType::kUnknown) return InvalidInput("{}: unknown dtype", where);
  }
  if (const YAML::Node samples = node["call_samples"]; samples.IsDefined()) {
    if (!YAML::convert<int64_t>::decode(samples, w.call_samples) || w.call_samples < 1 ||
        w.call_samples > 1 << 24) {
      return InvalidInput("{}: 'call_samples' must be a whole number from 1 to {}", where, 1 << 24);
    }
  }
  const YAML::Node operators = node["operators"];
  const YAML::Node edges = node["edges"];
  if (!operators.IsDefined() || !operators.IsSequence() || operators.size() == 0) {
    return InvalidInput("{}: 'operators' must be a list that is not empty", where);
  }
  if (operators.size() > kMaxOperators) {
    return InvalidInput("{}: more than {} operators", where, kMaxOperators);
  }
  std::map<std::string, int32_t> index;
  for (const YAML::Node& entry : operators) {
    Operator op;
    FORETRACE_RETURN_IF_ERROR(
        ReadOperator(entry, fmt::format("{}: operator {}", where, w.operators.size()), op));
    if (!index.emplace(op.name, static_cast<int32_t>(w.operators.size())).second) {
      return InvalidInput("{}: operator '{}' is given twice", where, op.name);
    }
    w.operators.push_back(std::move(op));
  }
  FORETRACE_RETURN_IF_ERROR(ReadEdges(edges, where, index, w));
  FORETRACE_RETURN_IF_ERROR(w.Validate());
  FindTensorParallelism(w, Kept::kResults);
  return Graph(std::move(w));
}

absl::StatusOr<ModelFile> ReadPublished(const YAML::Node& root, std::string_view source) {
  FORETRACE_ASSIGN_OR_RETURN(PublishedModel published, ReadPublishedConfig(root, source));
  // All are called config.json, in a folder of the model's name.
  const std::filesystem::path file_name(source);
  const std::string stem = file_name.stem().string();
  const std::string name =
      file_name.filename() == kPublishedFile ? file_name.parent_path().filename().string() : stem;
  if (!name.empty() && name != "." && name != "..") published.config.name = name;
  ModelFile file;
  absl::StatusOr<Workload> workload = BuildTransformer(WithDefaults(published.config));
  if (!workload.ok()) {
    return InvalidInput("{}: {}", source, std::string(workload.status().message()));
  }
  file.workload = *std::move(workload);
  file.workload.name = published.config.name;
  file.transformer = WithDefaults(published.config);
  file.notes = std::move(published.notes);
  return file;
}

// Bounds nesting before yaml-cpp, which recurses, sees the text.
bool NestsTooDeep(const std::string& text) {
  int depth = 0;
  size_t line_dashes = 0;
  bool line_start = true;
  for (const char ch : text) {
    if (ch == '[' || ch == '{') ++depth;
    if (ch == ']' || ch == '}') --depth;
    if (depth > kMaxNesting) return true;
    if (ch == '\n') {
      line_start = true;
      line_dashes = 0;
    } else if (line_start && (ch == '-' || ch == '?')) {
      if (++line_dashes > static_cast<size_t>(kMaxNesting)) return true;
    } else if (ch != ' ') {
      line_start = false;
    }
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> ReadNames(const YAML::Node& node,
                                                   std::string_view source) {
  std::vector<std::string> names;
  if (!node.IsSequence()) return InvalidInput("{}: 'also' is not a list of names", source);
  for (const YAML::Node& name : node) {
    if (!name.IsScalar() || name.Scalar().empty()) {
      return InvalidInput("{}: 'also' is not a list of names", source);
    }
    names.push_back(name.Scalar());
  }
  return names;
}

// "2025" or "2025-04".
bool IsYearOrMonth(const std::string& text) {
  static const std::regex kDate("(19[5-9]|20[0-9])[0-9](-(0[1-9]|1[0-2]))?");
  return std::regex_match(text, kDate);
}

absl::StatusOr<ModelFile> ReadRoot(const YAML::Node& root, std::string_view source) {
  using Reader = std::function<absl::StatusOr<ModelFile>(const YAML::Node&, const std::string&)>;
  const std::map<std::string, Reader> readers = {
      {"transformer", ReadTransformer}, {"mmt", ReadMmt},     {"dlrm", ReadDlrm},
      {"candle_uno", ReadCandleUno},    {"graph", ReadGraph}, {"two_branch", ReadTwoBranch}};
  if (!root.IsMap()) return InvalidInput("{}: not a workload: the top must be a map", source);
  if (IsPublishedConfig(root)) return ReadPublished(root, source);
  std::string name, chosen, published;
  std::vector<std::string> also;
  for (const auto& entry : root) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    if (key == "name") {
      if (!entry.second.IsScalar()) return InvalidInput("{}: 'name' is not a word", source);
      name = entry.second.Scalar();
    } else if (key == "published") {
      published = entry.second.IsScalar() ? entry.second.Scalar() : "";
      if (!IsYearOrMonth(published)) {
        return InvalidInput("{}: 'published' is no year or month (2025, 2025-04)", source);
      }
    } else if (key == "also") {
      FORETRACE_ASSIGN_OR_RETURN(also, ReadNames(entry.second, source));
    } else if (!readers.contains(key) || !chosen.empty()) {
      return InvalidInput(
          "{}: {} '{}'; a workload has one of transformer, mmt, dlrm, candle_uno, two_branch, "
          "graph",
          source, readers.contains(key) ? "a second model," : "unknown key", key);
    } else {
      chosen = key;
    }
  }
  if (chosen.empty()) {
    return InvalidInput(
        "{}: no model; give one of transformer, mmt, dlrm, candle_uno, two_branch, graph", source);
  }
  FORETRACE_ASSIGN_OR_RETURN(
      ModelFile model, readers.at(chosen)(root[chosen], fmt::format("{}: {}", source, chosen)));
  model.also = std::move(also);
  model.published = std::move(published);
  if (!name.empty()) {
    model.workload.name = name;
    if (model.transformer) model.transformer->name = name;
  }
  FORETRACE_RETURN_IF_ERROR(model.workload.Validate());
  return model;
}

}  // namespace

absl::StatusOr<ModelFile> ParseModel(const std::string& text, std::string_view source) {
  if (NestsTooDeep(text)) {
    return InvalidInput("{}: nested more than {} levels deep", source, kMaxNesting);
  }
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ParseYaml(text, std::string(source)));
  try {
    return ReadRoot(root, source);
  } catch (const YAML::Exception& e) {
    return InvalidInput("{}:{}: {}", source, e.mark.line + 1, e.msg);
  }
}

absl::StatusOr<ModelFile> LoadModel(const std::string& given) {
  const std::string path = PublishedFileOf(given);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidInput("{}: a folder without a {}; a model is a file, or such a folder", given,
                        kPublishedFile);
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxYamlBytes));
  absl::StatusOr<ModelFile> model = ParseModel(text, path);
  if (model.ok() || model.status().message().find(path) != absl::string_view::npos) return model;
  // Checks of the model itself know its name alone.
  return absl::Status(model.status().code(),
                      fmt::format("{}: {}", path, std::string(model.status().message())));
}

absl::StatusOr<Workload> ParseWorkload(const std::string& text, std::string_view source) {
  FORETRACE_ASSIGN_OR_RETURN(ModelFile model, ParseModel(text, source));
  return std::move(model.workload);
}

absl::StatusOr<Workload> LoadWorkload(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(ModelFile model, LoadModel(path));
  return std::move(model.workload);
}

}  // namespace foretrace
