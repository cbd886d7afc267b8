#pragma once
// Mappings in files.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/parallel_mapping.h"
#include "simulator/plan/in_flight.h"

namespace foretrace {

// A stage graph: which operators of the workload run where. Dependencies between stages are those
// of their operators; C1 to C5 of GraphPipe are checked where it is evaluated.
struct StagePlacement {
  std::vector<std::string> operators;
  int32_t devices = 1;  // share each micro-batch of `config.micro_batch` samples
  int32_t tensor = 1;   // of them divide one replica's operators among them
  StageConfig config;
  std::vector<std::string> recomputed;  // of `operators`
};
struct StageMapping {
  int32_t mini_batch = 1;
  // The order of the stages is a dependency as well (sequential pipeline parallelism).
  bool sequential = false;
  std::vector<StagePlacement> stages;
};

using MappingFile = std::variant<ParallelMapping, StageMapping>;

// YAML, one of
//
//   parallel: tp8 pp4 dp2 mb1 v2 full sp gb128     words of ParseMapping
//
//   stages:                                        in a topological order
//     - {operators: [a, b], devices: 2, tensor: 1, micro_batch: 4, k: 1, recompute: [a]}
//   mini_batch: 128
//   sequential: false
//
// Errors name file, line and key.
absl::StatusOr<MappingFile> LoadMapping(const std::string& file);
absl::StatusOr<MappingFile> ParseMappingFile(const std::string& text, const std::string& file);

// What LoadMapping reads.
std::string MappingYaml(const MappingFile& mapping);

}  // namespace foretrace
