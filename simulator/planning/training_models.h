#pragma once
// Models by the names that tables of training runs use.

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// In whatever case, parts joined by anything; files of the given folder come before those that are
// shipped.
class TrainingModels {
 public:
  explicit TrainingModels(std::string folder);
  // nullopt: not known. Of a name that is not, what models of its first letters are built of
  // (Llama's gated layers and norms), without sizes, which then are the row's.
  absl::StatusOr<std::optional<TransformerConfig>> Find(const std::string& name) const;

 private:
  absl::StatusOr<std::optional<TransformerConfig>> Kin(const std::string& name) const;

  std::string folder_;
  std::map<std::string, std::string> files_;
};

}  // namespace foretrace
