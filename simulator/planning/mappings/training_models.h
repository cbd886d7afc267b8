#pragma once
// Models by the names that tables of training runs use.

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/base/shipped.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// In whatever case, parts joined by anything; files of the given folder come before those that are
// shipped.
class TrainingModels {
 public:
  explicit TrainingModels(std::string folder);
  // nullopt: not known. Of a name that is not: without `own_sizes` the only model with its first
  // letters and what follows its last hyphen (llama3-405b: Llama 3.1's), else the longest of which
  // it says more (mixtral-8x7b-v0.1), else the only one of which it leaves out the last word
  // (grok-1), whose name the result then has; else what models of its first letters are built of
  // (Llama's gated layers and norms), without sizes, which then are the row's.
  absl::StatusOr<std::optional<TransformerConfig>> Find(const std::string& name,
                                                        bool own_sizes = false) const;

 private:
  const std::string* Namesake(const std::string& name) const;
  const std::string* LongerOrShorter(const std::string& name) const;
  absl::StatusOr<std::optional<TransformerConfig>> Kin(const std::string& name) const;

  std::string folder_;
  std::map<std::string, ShippedFile> files_;
};

}  // namespace foretrace
