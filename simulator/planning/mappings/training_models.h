#pragma once
// Models by the names that tables of training runs use.

#include <map>
#include <optional>
#include <set>
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
  // nullopt: not known. Of a name that is not: without `own_sizes` the model whose name, or another
  // of its names (ModelFile::also), is the longest part of it (mixtral-8x7b-v0.1,
  // meta-llama/Llama-3.1-405B, llama31_8b, bloom-7b1), else the only one with its first letters
  // and what follows its last hyphen (llama3-405b: Llama 3.1's), else the only one of which it
  // leaves out the last word (grok-1), whose name the result then has; else what models of its
  // first letters are built of (Llama's gated layers and norms), without sizes, which then are the
  // row's. Not thread-safe.
  absl::StatusOr<std::optional<TransformerConfig>> Find(const std::string& name,
                                                        bool own_sizes = false) const;

 private:
  // The only model of that name, or of one in it.
  absl::StatusOr<const std::string*> Within(const std::string& name) const;
  const std::string* Namesake(const std::string& name) const;
  const std::string* Shorter(const std::string& name) const;
  absl::StatusOr<std::optional<TransformerConfig>> Kin(const std::string& name) const;

  std::string folder_;
  std::map<std::string, ShippedFile> files_;
  // Files by their names, and by the other names of their models, in plain words; read when first
  // needed.
  mutable std::map<std::string, std::set<std::string>> names_, others_;
};

}  // namespace foretrace
