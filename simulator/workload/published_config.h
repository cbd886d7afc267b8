#pragma once
// Models as their publishers state them: config.json, as Hugging Face's transformers writes it.

#include <yaml-cpp/yaml.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/workload/published_keys.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

inline constexpr std::string_view kPublishedFile = "config.json";
// That file within a folder that has one; else the path itself.
std::string PublishedFileOf(const std::string& path);
// Whether a path names such a file, a folder that has one, or a file of another name with JSON that
// states a model's type.
bool NamesPublishedModel(const std::string& path);

struct PublishedModel {
  TransformerConfig config;
  std::vector<std::string> notes;  // what it does not say, and what of it is left out
};

// Whether a document is such a file and no workload.
bool IsPublishedConfig(const YAML::Node& root);

// Of a model of text and images the model of text. Samples of training have as many tokens as the
// model takes, at most 4,096, and computation has 16 bits. Errors: a type of model that is not
// known; sizes that are missing, misspelt, or say what TransformerConfig cannot.
absl::StatusOr<PublishedModel> ReadPublishedConfig(const YAML::Node& root, std::string_view source);

// One of transformers' types of models (published_types.cpp): what it says, into `config`.
struct PublishedType {
  std::string_view name;
  void (*read)(PublishedKeys& keys, TransformerConfig& config);
};
// In order of names.
const std::vector<PublishedType>& PublishedTypes();
// The sizes that a map within another may leave out, since it says only how it differs from its
// class (transformers, configuration_utils.py, PretrainedConfig.to_diff_dict).
std::map<std::string, int64_t> ClassDefaults(std::string_view type);

}  // namespace foretrace
