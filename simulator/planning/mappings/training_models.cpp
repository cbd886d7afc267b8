#include "simulator/planning/mappings/training_models.h"

#include <cctype>
#include <filesystem>
#include <utility>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/software_stack.h"
#include "simulator/planning/mappings/training_job.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

}  // namespace

TrainingModels::TrainingModels(std::string folder) : folder_(std::move(folder)) {
  for (const ShippedFile& file : ListShipped(kWorkloads)) {
    files_.emplace(PlainName(file.name), file);
  }
}

absl::StatusOr<std::optional<TransformerConfig>> TrainingModels::Find(const std::string& name,
                                                                      bool own_sizes) const {
  std::string path;
  for (const std::string& as : {name, LowerCase(name)}) {
    const std::string own = fmt::format("{}/{}.yaml", folder_, as);
    std::error_code error;
    if (path.empty() && !folder_.empty() && fs::is_regular_file(own, error)) path = own;
  }
  const auto it = files_.find(PlainName(name));
  if (path.empty() && it != files_.end()) path = it->second.path;
  std::string as = name;
  if (path.empty()) {
    const std::string* namesake = own_sizes ? nullptr : Namesake(name);
    if (namesake == nullptr && !own_sizes) namesake = LongerOrShorter(name);
    if (namesake == nullptr) return Kin(name);
    path = *namesake;
    as = fs::path(path).stem().string();
  }
  FORETRACE_ASSIGN_OR_RETURN(ModelFile model, LoadModel(path));
  if (model.transformer) model.transformer->name = as;
  return model.transformer;
}

const std::string* TrainingModels::Namesake(const std::string& name) const {
  // A family's words without numbers, and what follows the last hyphen: llama3-405b,
  // nemotron-340b; not gpt-oss-20b for gpt3-20b.
  const auto parts = [](const std::string& full) {
    const std::string plain = LowerCase(full);
    const size_t last = plain.find_last_of("-_ ");
    std::string family;
    for (const char c : plain.substr(0, last == std::string::npos ? plain.size() : last)) {
      if (std::isdigit(static_cast<unsigned char>(c)) == 0 && c != '.') family += c;
    }
    return std::pair(family, plain.substr(last + 1));
  };
  const auto wanted = parts(name);
  const std::string* found = nullptr;
  for (const auto& [plain, file] : files_) {
    if (wanted.first.empty() || parts(file.name) != wanted) continue;
    if (found != nullptr) return nullptr;
    found = &file.path;
  }
  return found;
}

const std::string* TrainingModels::LongerOrShorter(const std::string& name) const {
  constexpr std::string_view kBetween = "-_ ";
  const std::string wanted = LowerCase(name);
  const std::string *begins = nullptr, *only = nullptr;
  size_t longest = 0, longer = 0;
  for (const auto& [plain, file] : files_) {
    const std::string own = LowerCase(file.name);
    if (own.size() > longest && own.size() < wanted.size() && wanted.starts_with(own) &&
        kBetween.find(wanted[own.size()]) != std::string_view::npos) {
      longest = own.size();
      begins = &file.path;
    }
    const size_t last = own.find_last_of(kBetween);
    if (last == std::string::npos || PlainName(own.substr(0, last)) != PlainName(wanted)) continue;
    ++longer;
    only = &file.path;
  }
  if (begins != nullptr) return begins;
  return longer == 1 ? only : nullptr;
}

absl::StatusOr<std::optional<TransformerConfig>> TrainingModels::Kin(
    const std::string& name) const {
  const auto letters = [](const std::string& text) {
    return text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
  };
  const std::string wanted = letters(PlainName(name));
  for (const auto& [plain, file] : files_) {
    if (wanted.empty() || letters(plain) != wanted) continue;
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile model, LoadModel(file.path));
    if (!model.transformer || model.transformer->experts > 0) continue;
    TransformerConfig c = *model.transformer;
    c.hidden = c.layers = c.heads = c.kv_heads = c.head_size = c.ffn = c.vocabulary = 0;
    c.sequence = c.positions = 0;
    c.name = name;
    return c;
  }
  return std::nullopt;
}

}  // namespace foretrace
