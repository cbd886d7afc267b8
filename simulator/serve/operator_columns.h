#pragma once
// Tables of operators of two sources, made comparable: which columns they have, and how they name
// types and kernels, differs between frameworks and releases.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace::serve {

struct AlignedOperators {
  std::string known, test;         // with the same columns; lines keep their numbers
  std::vector<std::string> notes;  // what was assumed
};

// `test_text` in the columns and names of `text`:
// - a column that one of them lacks is one that did not vary there: no window, whole experts, the
//   cache's type that of the arithmetic, else what all rows of the other have;
// - labels that change nothing (tp_size) are left out, as is kernel_source where one lacks it;
// - types of other names are those that they mean (bf16: bfloat16), and types of 16 bits stand in
//   for each other where the table has one alone;
// - kernels that the table lacks are predicted by those of its type that it has most rows of, gated
//   by gated ones.
// Errors: a column that one lacks and that varies in the other.
absl::StatusOr<AlignedOperators> AlignOperators(const std::string& file, std::string_view text,
                                                const std::string& test_file,
                                                std::string_view test_text);

}  // namespace foretrace::serve
