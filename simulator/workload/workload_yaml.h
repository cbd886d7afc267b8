#pragma once
// Workloads from YAML. One of:
//
//   transformer: {family: gpt, hidden: 12288, layers: 96, heads: 96, vocabulary: 51200,
//                 sequence: 2048}            keys as in TransformerConfig
//   mmt: {branches: 4, ...}                  keys as in MultiModalConfig
//   dlrm: {...}   candle_uno: {...}   two_branch: {}
//   graph:                                   any DAG; operators in topological order
//     operators:
//       - {name: a, parameters: 100, forward_flop: 1e9, backward_flop: 2e9, forward_bytes: 1e6,
//          backward_bytes: 2e6, stash_bytes: 1e6, output_bytes: 1e5}
//     edges: [[a, b], [a, c]]                a third element gives bytes, else a's output_bytes
//     dtype: float16                         of weights and arithmetic
//     call_samples: 1                        that the operators' `calls` are of
//
// An operator may also have `calls`, what it computes on which shapes (operator_call_yaml.h), and
// `function`, which point-wise one. With calls a graph can be divided by tensor parallelism
// (tensor_parallel.h) and run on tensor and vector cores.
//
// and, optionally, `name`, `also`, a list of other names that tables of training runs give the
// model, and `published`, its year or month (2025-04). Quantities are per sample, in bytes and
// FLOP.
//
// Or the config.json of a model, as Hugging Face's transformers writes it (published_config.h).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/workload/transformer.h"
#include "simulator/workload/workload.h"

namespace foretrace {

// `source` names the text in messages.
absl::StatusOr<Workload> ParseWorkload(const std::string& text, std::string_view source);
absl::StatusOr<Workload> LoadWorkload(const std::string& path);

// The layer graph together with the sizes it was made from, which parallel mappings are checked and
// timed by; nullopt for models that are not transformers.
struct ModelFile {
  Workload workload;
  std::optional<TransformerConfig> transformer;  // with its defaults filled in
  std::vector<std::string> also;                 // other names of it
  std::string published;                         // a year or month; empty: not said
  std::vector<std::string> notes;                // what follows from it otherwise than it says
};
absl::StatusOr<ModelFile> ParseModel(const std::string& text, std::string_view source);
// Of a file, or of a folder with a config.json.
absl::StatusOr<ModelFile> LoadModel(const std::string& path);

}  // namespace foretrace
