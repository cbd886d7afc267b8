#include "simulator/workload/published_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/model_text.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {

namespace fs = std::filesystem;

namespace {

// Of pretraining, where nothing says more; every model has a longer one at its end.
constexpr int64_t kMostTokens = 4096;

const PublishedType* FindType(std::string_view name) {
  const auto& types = PublishedTypes();
  const auto found = std::ranges::find(types, name, &PublishedType::name);
  return found == types.end() ? nullptr : &*found;
}

void ReadFormat(PublishedKeys& keys, TransformerConfig& c) {
  const std::string type = keys.Word({"torch_dtype", "dtype"}, "");
  c.dtype = ParseDType(type);
  if (ElementSize(c.dtype) == 2) return;
  c.dtype = DType::kBFloat16;
  keys.Note(type.empty() ? "it names no type of weights; bfloat16 is supposed"
                         : fmt::format("weights are stored in {}; computation in bfloat16 is "
                                       "supposed",
                                       OneLine(type)));
}

// What quantization_config says of weights (transformers, utils/quantization_config.py).
void ReadWeights(PublishedKeys& keys, TransformerConfig& c) {
  if (!keys.Has("quantization_config")) return;
  PublishedKeys within = keys.Within("quantization_config");
  const std::string method = within.Word({"quant_method"}, "");
  const int64_t bits = within.Size({"bits", "w_bit"}, 0);
  std::optional<WeightFormat> format;
  if (method == "fp8" || method == "fbgemm_fp8") {
    format = within.Has("weight_block_size") ? WeightFormat::kFp8Block : WeightFormat::kFp8;
  } else if (method == "mxfp4") {
    c.expert_weights = WeightFormat::kMxfp4;  // which alone are quantised
    return keys.Merge(within);
  } else if ((method == "gptq" || method == "awq") && bits == 4) {
    format = WeightFormat::kInt4;
  }
  if (format) {
    c.weights = *format;
    if (c.experts > 0) c.expert_weights = *format;
  } else {
    keys.Note(fmt::format("weights quantised by '{}' are taken as {} (serve --weights)",
                          OneLine(method), Name(c.dtype)));
  }
  keys.Merge(within);
}

void ReadSequence(PublishedKeys& keys, TransformerConfig& c) {
  if (c.sequence == 0)
    c.sequence = c.positions > 0 ? std::min(c.positions, kMostTokens) : kMostTokens;
  keys.Note(fmt::format("training samples of {} tokens are supposed{}", c.sequence,
                        c.positions > c.sequence
                            ? fmt::format(", where the model takes up to {}", c.positions)
                            : ""));
}

// The map with the model of text, where a model of several kinds of data has one.
const char* TextKey(const YAML::Node& root) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const YAML::Node within = root[key];
    if (within.IsDefined() && within.IsMap()) return key;
  }
  return nullptr;
}

std::string TypeOf(const YAML::Node& map) {
  const YAML::Node type = map["model_type"];
  return type.IsDefined() && type.IsScalar() ? type.Scalar() : "";
}

absl::Status Unknown(std::string_view where, const std::string& type) {
  std::vector<std::string_view> names;
  for (const PublishedType& known : PublishedTypes()) names.push_back(known.name);
  if (type.empty()) {
    return InvalidInput("{}: lacks 'model_type'; known are {}", where, fmt::join(names, ", "));
  }
  return InvalidInput(
      "{}: model_type '{}' is not known; write its sizes as a workload (docs/search.md, "
      "\"Workloads\"), or take one that a recording has (convert --workload); known are {}",
      where, Excerpt(type, 60), fmt::join(names, ", "));
}

}  // namespace

std::string PublishedFileOf(const std::string& path) {
  std::error_code error;
  const fs::path within = fs::path(path) / kPublishedFile;
  return fs::is_directory(path, error) && fs::exists(within, error) ? within.string() : path;
}

bool NamesPublishedModel(const std::string& path) {
  if (fs::path(PublishedFileOf(path)).filename() == kPublishedFile) return true;
  std::error_code error;  // what is no file, as a pipe, can be read but once
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) >= kModelTextBytes)
    return false;
  const auto text = ReadBinaryFile(path, kModelTextBytes);
  return text.ok() && StatesModelType(*text);
}

bool IsPublishedConfig(const YAML::Node& root) {
  if (!root.IsMap()) return false;
  const YAML::Node map = root;
  return map["model_type"].IsDefined() || map["architectures"].IsDefined() ||
         map["transformers_version"].IsDefined();
}

absl::StatusOr<PublishedModel> ReadPublishedConfig(const YAML::Node& root,
                                                   std::string_view source) {
  const YAML::Node whole = root;
  const char* text = TextKey(whole);
  const YAML::Node map = text == nullptr ? whole : whole[text];
  std::string where(source);
  std::string type = TypeOf(map);
  if (text != nullptr) {
    where += fmt::format(": {}", text);
    if (type.empty()) type = TypeOf(whole) + "_text";
  }
  const PublishedType* known = FindType(type);
  if (known == nullptr) return Unknown(where, type.empty() ? TypeOf(whole) : type);
  PublishedModel model;
  TransformerConfig& c = model.config;
  c.name = type;
  c.fused_attention = true;
  PublishedKeys keys(map, where,
                     text == nullptr ? std::map<std::string, int64_t>() : ClassDefaults(type));
  known->read(keys, c);
  // A model of several kinds of data may state these of all of it.
  PublishedKeys all(whole, std::string(source), {});
  ReadFormat(keys.Has("torch_dtype") || keys.Has("dtype") ? keys : all, c);
  ReadWeights(keys.Has("quantization_config") ? keys : all, c);
  keys.Merge(all);
  ReadSequence(keys, c);
  FORETRACE_RETURN_IF_ERROR(keys.Finish());
  if (text != nullptr) {
    model.notes.push_back(fmt::format(
        "{}: the model of text alone; what it takes of images or sound is left out", source));
  }
  for (std::string& note : keys.Notes()) model.notes.push_back(std::move(note));
  return model;
}

}  // namespace foretrace
