#pragma once
// The papers' studies of decode parallelism, of prompts and tokens on dataflow devices, and of
// drafts, as rows.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

struct ServeStudy {
  std::string study;  // volumes, decode, phases or drafts
  std::string platform = "dgx-a100";
  std::string model = "llama2-7b";
  int32_t devices = 4;
  double spread = 0.3;
  double table_us = 10, host_us = 100;
  double draft_us = 842.7, target_us = 31507;
  std::string accelerator = "sn40l";
  double link_gbps = 50, hop_ns = 150, reach = 0.9;
  int64_t prompt = 4096;
};

// One line: names and numbers in order.
using StudyRow = std::vector<std::pair<std::string, std::variant<double, std::string>>>;

// At least one; `notes` learns which model a name was taken to mean. Errors: models and devices
// that cannot be, divisions that leave none.
absl::StatusOr<std::vector<StudyRow>> RowsOf(const ServeStudy& study,
                                             std::vector<std::string>& notes);

}  // namespace foretrace
