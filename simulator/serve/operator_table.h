#pragma once
// Measured times of single operators over their sizes, and how well a shape follows from the
// others.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/operator_model.h"

namespace foretrace::serve {

// Of one precision of a table.
struct OperatorErrors {
  std::string name;
  size_t rows = 0;
  size_t held_out = 0;      // that are predicted
  size_t fitted = 0;        // that the prediction was fitted to, so that none is due
  size_t beyond = 0;        // of these, that lie between no others: by sizes alone
  bool by_kernels = false;  // by a model of these; else along lines
  double median_percent = 0, p90_percent = 0;  // of these; of no meaning where there are none
  std::vector<double> relative;                // predicted over measured, less 1, of these

  // Due and not predicted: along lines those that have no others on one side.
  size_t uncovered() const { return rows - fitted - held_out; }
};
OperatorErrors SummarizeOperator(std::string name, size_t rows, std::vector<double> relative);
// Of all precisions, each row with the same weight.
OperatorErrors AllOperators(const std::vector<OperatorErrors>& errors);

// What the device of tested rows has of what the table's device has: of memory's bandwidth, and of
// arithmetic in so many bits.
struct OperatorScale {
  double bandwidth = 1, half = 1, eight_bits = 1, four_bits = 1;

  double compute(std::string_view precision) const;
};

// A table in aiconfigurator's columns, with a column latency_ms and
//   gemm_dtype,m,n,k                     held out by (n, k): between the nearest n of the same m
//   and k,
//                                        and the nearest k, along the line, the mean of both
//   num_heads,num_key_value_heads,...    by heads: between the nearest numbers of heads that share
//   keys
//                                        in the same proportion, else of the same keys
//   num_heads,...                        (latent attention) by heads
//   moe_dtype,num_tokens,...             by tokens, which are all that expert tables have a line
//   of;
//                                        corrected by how far siblings of other division or
//                                        distribution are from their lines at as many tokens
// A row is predicted from rows of other groups alone. Errors name file and line.
absl::StatusOr<std::vector<OperatorErrors>> HoldOutOperators(const std::string& file,
                                                             std::string_view text);

struct OperatorFile {
  std::string file;
  std::string_view text;
};
// The rows of `test_text`, of the same columns, from those of `text`: by lines as above, where
// there are none along the other sizes (tokens cached, sequences, division of experts) relative to
// the work, and a shape that both have as it was measured; the order of the columns may differ.
// `few`: few rows of the tested device, which correct what the table says of it; may be empty.
// With a trainer, what lies between rows and beyond them is relative to a model of the table's own
// (operator_model.h). Without, none of the rows may be predicted. Errors: as above, other columns,
// the trainer's.
absl::StatusOr<std::vector<OperatorErrors>> TestOperators(
    const std::string& file, std::string_view text, const std::string& test_file,
    std::string_view test_text, const OperatorScale& scale = {}, const OperatorFile& few = {},
    const ResidualTrainer& trainer = {});

// What of the rows nothing is said of and why, a line a precision.
std::vector<std::string> OperatorNotes(const std::vector<OperatorErrors>& errors);
// What stands above the errors.
struct OperatorHeading {
  std::string how = "each shape predicted from its neighbours of other groups";
  bool tested = false;  // rows of another table than they are predicted from
};
std::string OperatorText(const std::string& file, const std::vector<OperatorErrors>& errors,
                         const OperatorHeading& heading = {});
// `notes`: beside OperatorNotes.
std::string OperatorJson(const std::string& file, const std::vector<OperatorErrors>& errors,
                         const std::vector<std::string>& notes = {});

}  // namespace foretrace::serve
