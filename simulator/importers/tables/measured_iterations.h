#pragma once
// Training iterations that others measured, in the forms in which they published them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"

namespace foretrace {

struct MeasuredIteration {
  std::string name;   // of the row
  std::string where;  // it stands, for messages
  int64_t gpus = 0;
  int64_t hidden = 0, ffn = 0, heads = 0, layers = 0, sequence = 0;  // ffn 0: not said
  int64_t tensor = 1, data = 1, pipeline = 1, chunks = 1;
  int64_t micro_batch = 1, global_batch = 1;
  bool sequence_parallel = false;
  std::optional<std::string> recompute;  // none, selective or full; nullopt: not said
  SimTime measured;
};

// vTrain's CSV ("# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "#
// layers", "sequence length", "tensor parallelism", "data parallelism", "pipeline parallelism",
// "iteration time (ms)"; others are ignored, a byte-order mark is fine); or, where the file begins
// with a brace, Calculon's JSON of Megatron-LM's table 5, an object a row with
// "measured_iteration_s", "application" and "execution". Errors: missing columns, fields that are
// no numbers; each with its line.
absl::StatusOr<std::vector<MeasuredIteration>> LoadMeasuredIterations(const std::string& path);

namespace internal {
absl::StatusOr<std::vector<MeasuredIteration>> ReadVtrainTable(const std::string& path,
                                                               const std::string& content);
absl::StatusOr<std::vector<MeasuredIteration>> ReadCalculonTable(const std::string& path,
                                                                 const std::string& content);
}  // namespace internal

}  // namespace foretrace
