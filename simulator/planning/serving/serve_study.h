#pragma once
// The papers' studies of decode parallelism, of prompts and tokens on dataflow devices, and of
// drafts, as rows.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"

namespace foretrace {

struct ServeStudy {
  std::string study;  // volumes, decode, phases or drafts
  std::string platform = "dgx-a100";
  std::string model = "llama2-7b";
  int32_t devices = 4;
  double spread = 0.3;
  RealUs table{10}, host{100};         // of 1,000 blocks of a table; of a step otherwise
  RealUs draft{842.7}, target{31507};  // a step of either model
  std::string accelerator = "sn40l";
  Bandwidth link = Bandwidth::GBps(50);  // of the devices' ring
  RealNs hop{150};
  double reach = 0.9;  // of the device's rate
  int64_t prompt = 4096;
};

// One line: names and numbers in order.
using StudyRow = std::vector<std::pair<std::string, std::variant<double, std::string>>>;

// At least one; `notes` learns which model a name was taken to mean. Errors: models and devices
// that cannot be, divisions that leave none.
absl::StatusOr<std::vector<StudyRow>> RowsOf(const ServeStudy& study,
                                             std::vector<std::string>& notes);

}  // namespace foretrace
