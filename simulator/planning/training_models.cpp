#include "simulator/planning/training_models.h"

#include <filesystem>
#include <utility>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/software_stack.h"
#include "simulator/planning/training_job.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

}  // namespace

TrainingModels::TrainingModels(std::string folder) : folder_(std::move(folder)) {
  for (const ShippedFile& file : ListShipped(kWorkloads)) {
    files_.emplace(PlainName(file.name), file.path);
  }
}

absl::StatusOr<std::optional<TransformerConfig>> TrainingModels::Find(
    const std::string& name) const {
  std::string path;
  for (const std::string& as : {name, LowerCase(name)}) {
    const std::string own = fmt::format("{}/{}.yaml", folder_, as);
    std::error_code error;
    if (path.empty() && !folder_.empty() && fs::is_regular_file(own, error)) path = own;
  }
  const auto it = files_.find(PlainName(name));
  if (path.empty() && it == files_.end()) return Kin(name);
  if (path.empty()) path = it->second;
  FORETRACE_ASSIGN_OR_RETURN(const ModelFile model, LoadModel(path));
  return model.transformer;
}

absl::StatusOr<std::optional<TransformerConfig>> TrainingModels::Kin(
    const std::string& name) const {
  const auto letters = [](const std::string& text) {
    return text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
  };
  const std::string wanted = letters(PlainName(name));
  for (const auto& [plain, path] : files_) {
    if (wanted.empty() || letters(plain) != wanted) continue;
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile model, LoadModel(path));
    if (!model.transformer || model.transformer->experts > 0) continue;
    TransformerConfig c = *model.transformer;
    c.hidden = c.layers = c.heads = c.kv_heads = c.head_size = c.ffn = c.vocabulary = 0;
    c.sequence = c.positions = 0;
    return c;
  }
  return std::nullopt;
}

}  // namespace foretrace
