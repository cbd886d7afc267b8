#pragma once
// Measured lookups between the neutral table's rows (calibration/README.md) and the model's
// queries.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/calibrate/csv_table.h"
#include "simulator/cost/embedding/embedding_model.h"

namespace foretrace {

// What of a lookup was timed.
enum class TimedPart : uint8_t {
  kAll,
  kKernels,  // without the sorting of indices
  kSort,     // that alone
  kCount,
};

struct LookupSample {
  LookupKernels kernels = LookupKernels::kBatched;
  LookupPass pass = LookupPass::kForward;
  TimedPart part = TimedPart::kAll;
  EmbeddingQuery query;
  double calls = 1;  // of the query, one after the other: a call a table
};

// What kernels ran is in the library's tags: impl=batched, loop (a call a table) or concat (one
// call); grad=fused, dense or sparse; optimizer=sgd, sgd_momentum, adam or adagrad and rowwise=0 or
// 1 where the update is fused; part=kernels or sort; lengths=mean where tables' own pooling factors
// are not known. Errors, without file and line: tags or shapes that are missing or make no sense.
absl::StatusOr<LookupSample> SampleOfRow(const BenchmarkRow& row);

// The row of a sample whose tables are alike, without what is not the sample's (platform, time,
// source). `library` comes before the tags.
BenchmarkRow RowOfSample(const LookupSample& sample, const std::string& library);

// The value of `tag` in "text;tag=value;other=value"; empty where it is not there.
std::string_view TagOf(std::string_view text, std::string_view tag, char separator = ';');

}  // namespace foretrace
