#pragma once
// Models by the names that tables of training runs use.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/shipped.h"
#include "simulator/workload/transformer.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {

// In whatever case, parts joined by anything; files of the given folder come before those that are
// shipped. A size in a name (16b) that is neither all of a model's parameters nor those of a token
// means another model.
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
  // The file of the model that Find takes for `name`, before it looks for what shares its family;
  // empty: none.
  absl::StatusOr<std::string> FileOf(const std::string& name) const;
  // The year that the file of that name states; empty: none does.
  std::string Published(const std::string& name) const;
  // What a name that Find finds no sizes for may have been meant to be: "gpt-oss-120b or
  // gpt-oss-20b"; empty: none is near.
  std::string Meant(const std::string& name) const;

 private:
  struct Sizes {
    double all = 0, of_a_token = 0;  // parameters
  };
  // The folder's or the shipped file of that name; empty: none.
  std::string OfThatName(const std::string& name) const;
  // The file that is meant by a name that none has; empty: none is.
  absl::StatusOr<std::string> Alike(const std::string& name) const;
  // The only model of that name, or of one in it.
  absl::StatusOr<const std::string*> Within(const std::string& name) const;
  absl::Status ReadNames() const;
  // Whether sizes among these words may be those of a file's model.
  bool Allows(const std::string& file, const std::vector<std::string>& words) const;
  const std::string* Namesake(const std::string& name) const;
  const std::string* Shorter(const std::string& name) const;
  absl::StatusOr<std::optional<TransformerConfig>> Kin(const std::string& name) const;

  std::string folder_;
  std::map<std::string, ShippedFile> files_;
  // Files by their names, and by the other names of their models, in plain words; read when first
  // needed.
  mutable std::map<std::string, std::set<std::string>> names_, others_;
  mutable std::map<std::string, Sizes> sizes_;  // of files
  mutable std::map<std::string, std::string> years_;
};

// The file of the shipped model that an empty folder is called like, before which the folder must
// not stand; "": none.
std::string BehindFolder(const std::string& name);

// The workload file that an argument of a command means: a path or a shipped file's name
// (FindShipped), else the model that its publisher or tables of runs call so (TrainingModels),
// which `notes` then learn, for the command's report. Errors: as FindShipped.
absl::StatusOr<std::string> FindWorkload(const std::string& name, std::vector<std::string>& notes);

// The model with samples of so many tokens, noted where its file has another number. Errors: a
// graph, whose operators state their sizes; what CheckTransformer refuses.
absl::Status SetSequence(int64_t tokens, ModelFile& model);

}  // namespace foretrace
