#pragma once
// Costs of a device from tables of single operators that were measured on it.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/dtype.h"
#include "simulator/serve/device_costs.h"

namespace foretrace::serve {

struct OperatorTableText {
  std::string file;  // for messages
  std::string text;
};

// `base` with GEMMs, attention, latent attention and experts of `tables` (aiconfigurator's
// columns: operator_table.h), of the rows whose precision is `dtype` or another of 16 bits, of
// GEMMs and experts also those of weights in `formats`, and whose experts are activated evenly.
// GEMMs lie between the nearest n and k; attention between the nearest heads that share keys in
// the same proportion, and the nearest batches; all along lines, but for prompts, whose times are
// powers of their tokens. What no table has is the base's. Errors name file and line; a table
// without such rows.
absl::StatusOr<std::shared_ptr<const DeviceCosts>> WithOperatorTables(
    std::shared_ptr<const DeviceCosts> base, std::vector<OperatorTableText> tables, DType dtype,
    std::set<WeightFormat> formats = {});

}  // namespace foretrace::serve
