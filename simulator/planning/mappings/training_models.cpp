#include "simulator/planning/mappings/training_models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/nearest_name.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/software_stack.h"
#include "simulator/planning/mappings/training_job.h"
#include "simulator/workload/published_config.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

// Without the owner ("meta-llama/"), in lower case, and of sizes as BigScience writes them ("7b1")
// as others do ("7.1b").
std::string Respelled(const std::string& name) {
  const std::string plain = LowerCase(name.substr(name.rfind('/') + 1));
  const auto digit = [&](size_t i) {
    return i < plain.size() && std::isdigit(static_cast<unsigned char>(plain[i])) != 0;
  };
  std::string out;
  for (size_t i = 0; i < plain.size(); ++i) {
    const bool size = (plain[i] == 'b' || plain[i] == 'm') && i > 0 && digit(i - 1) && digit(i + 1);
    if (!size) {
      out += plain[i];
      continue;
    }
    const char unit = plain[i];
    out += '.';
    while (digit(i + 1)) out += plain[++i];
    out += unit;
  }
  return out;
}

// Llama 3.1 8B is also llama31-8b; 1.7b is not 17b.
std::string WithoutDots(const std::string& name) {
  const size_t size = std::min(name.find_last_of("-_ "), name.size());
  std::string family = name.substr(0, size);
  std::erase(family, '.');
  return PlainName(family + name.substr(size));
}

std::vector<std::string> WordsOf(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// Of "7b", "1.3b", "350m" and "1t"; nullopt: no size.
std::optional<double> SizeIn(const std::string& word) {
  double size = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), size);
  if (code != std::errc() || end + 1 != word.data() + word.size()) return std::nullopt;
  if (*end == 't') return 1e12 * size;
  if (*end == 'b') return 1e9 * size;
  return *end == 'm' ? std::optional(1e6 * size) : std::nullopt;
}

// "8\xC3\x977B" (a multiplication sign) as 8x7B, "GPT-3 (175B)" without brackets.
std::string WithLetters(std::string name) {
  constexpr std::string_view kTimes = "\xC3\x97";
  for (size_t at = name.find(kTimes); at != std::string::npos; at = name.find(kTimes)) {
    name.replace(at, kTimes.size(), "x");
  }
  std::erase_if(name, [](char c) { return c == '(' || c == ')'; });
  return name;
}

// The family's first word: "llama" of "llama3.1-8b".
std::string FirstLetters(const std::string& plain) {
  return plain.substr(0, plain.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
}

const std::string* Only(const std::map<std::string, std::set<std::string>>& files,
                        const std::string& name) {
  const auto it = files.find(name);
  return it != files.end() && it->second.size() == 1 ? &*it->second.begin() : nullptr;
}

}  // namespace

TrainingModels::TrainingModels(std::string folder) : folder_(std::move(folder)) {
  for (const ShippedFile& file : ListShipped(kWorkloads)) {
    files_.emplace(PlainName(file.name), file);
  }
}

std::string TrainingModels::OfThatName(const std::string& name) const {
  for (const std::string& as : {name, LowerCase(name)}) {
    const std::string own = fmt::format("{}/{}.yaml", folder_, as);
    std::error_code error;
    if (!folder_.empty() && fs::is_regular_file(own, error)) return own;
  }
  const auto it = files_.find(PlainName(name));
  return it != files_.end() ? it->second.path : "";
}

absl::StatusOr<std::string> TrainingModels::Alike(const std::string& name) const {
  const std::string respelled = Respelled(name);
  FORETRACE_ASSIGN_OR_RETURN(const std::string* namesake, Within(respelled));
  if (namesake == nullptr) namesake = Namesake(respelled);
  if (namesake == nullptr) namesake = Shorter(respelled);
  return namesake == nullptr ? std::string() : *namesake;
}

absl::StatusOr<std::string> TrainingModels::FileOf(const std::string& stated) const {
  const std::string name = WithLetters(stated), own = OfThatName(name);
  return own.empty() ? Alike(name) : own;
}

absl::StatusOr<std::optional<TransformerConfig>> TrainingModels::Find(const std::string& stated,
                                                                      bool own_sizes) const {
  const std::string name = WithLetters(stated);
  std::string path = OfThatName(name), as = stated;
  if (path.empty()) {
    if (own_sizes) return Kin(name);
    FORETRACE_ASSIGN_OR_RETURN(path, Alike(name));
    if (path.empty()) return Kin(name);
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

absl::Status TrainingModels::ReadNames() const {
  if (!names_.empty()) return absl::OkStatus();
  for (const auto& [plain, file] : files_) {
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile model, LoadModel(file.path));
    if (!model.transformer) continue;
    names_[PlainName(file.name)].insert(file.path);
    names_[WithoutDots(file.name)].insert(file.path);
    for (const std::string& other : model.also) others_[PlainName(other)].insert(file.path);
    double of_a_token = 0;
    for (const Operator& op : model.workload.operators) {
      of_a_token += static_cast<double>(op.active_parameters);
    }
    sizes_[file.path] = {static_cast<double>(model.workload.ParameterCount()), of_a_token};
  }
  return absl::OkStatus();
}

bool TrainingModels::Allows(const std::string& file, const std::vector<std::string>& words) const {
  const Sizes& sizes = sizes_.at(file);
  return std::ranges::all_of(words, [&](const std::string& word) {
    const auto stated = SizeIn(word);
    const auto near = [&](double size) { return *stated > 0.75 * size && *stated < 1.33 * size; };
    return !stated || near(sizes.all) || near(sizes.of_a_token);
  });
}

absl::StatusOr<const std::string*> TrainingModels::Within(const std::string& name) const {
  FORETRACE_RETURN_IF_ERROR(ReadNames());
  const std::vector<std::string> words = WordsOf(name);
  for (size_t count = words.size(); count > 0; --count) {
    for (size_t first = 0; first + count <= words.size(); ++first) {
      std::string part;
      std::vector<std::string> rest;
      bool sized = false;
      for (size_t i = 0; i < words.size(); ++i) {
        if (i >= first && i < first + count) {
          part += words[i];
          continue;
        }
        rest.push_back(words[i]);
        sized |= words[i].find_first_of("0123456789") != std::string::npos;
      }
      const std::string* found = Only(names_, part);
      // Other names may have no size: bloom-13b is none of them.
      if (found == nullptr && !sized) found = Only(others_, part);
      if (found != nullptr && Allows(*found, rest)) return found;
    }
  }
  return nullptr;
}

std::string TrainingModels::Published(const std::string& name) const {
  const auto [year, unknown] = years_.emplace(name, "");
  if (!unknown) return year->second;
  if (const std::string path = OfThatName(WithLetters(name)); !path.empty()) {
    const auto model = LoadModel(path);
    if (model.ok()) year->second = model->published;
  }
  return year->second;
}

std::string TrainingModels::Meant(const std::string& stated) const {
  const std::string name = PlainName(WithLetters(stated));
  const auto size_of = [](const std::string& text) {
    return text.substr(text.find_last_of("-_ ") + 1);
  };
  const std::string size = size_of(LowerCase(stated));
  std::vector<std::string> longer, as_large, all;
  for (const auto& [plain, file] : files_) {
    all.push_back(file.name);
    if (name.size() > 2 && plain.starts_with(name)) longer.push_back(file.name);
    const bool family = FirstLetters(plain) == FirstLetters(name);
    if (family && SizeIn(size) && size_of(file.name) == size) as_large.push_back(file.name);
  }
  for (const auto& names : {longer, as_large}) {
    if (!names.empty() && names.size() <= 4) return fmt::format("{}", fmt::join(names, " or "));
  }
  const std::string nearest = NearestName(LowerCase(stated), all);
  return FirstLetters(PlainName(nearest)) == FirstLetters(name) ? nearest : "";
}

const std::string* TrainingModels::Shorter(const std::string& name) const {
  const std::string* only = nullptr;
  for (const auto& [plain, file] : files_) {
    const std::string own = LowerCase(file.name);
    const size_t last = own.find_last_of("-_ ");
    if (last == std::string::npos || PlainName(own.substr(0, last)) != PlainName(name)) continue;
    if (only != nullptr) return nullptr;
    only = &file.path;
  }
  return only;
}

absl::StatusOr<std::optional<TransformerConfig>> TrainingModels::Kin(
    const std::string& name) const {
  const std::string wanted = FirstLetters(PlainName(name));
  for (const auto& [plain, file] : files_) {
    if (wanted.empty() || FirstLetters(plain) != wanted) continue;
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile model, LoadModel(file.path));
    if (!model.transformer || model.transformer->experts > 0) continue;
    if (!model.transformer->pattern.empty()) continue;  // which is of one model's layers
    if (!CheckTrainedAttention(*model.transformer).ok()) continue;
    TransformerConfig c = *model.transformer;
    c.hidden = c.layers = c.heads = c.kv_heads = c.head_size = c.ffn = c.vocabulary = 0;
    c.sequence = c.positions = 0;
    c.name = name;
    return c;
  }
  return std::nullopt;
}

std::string BehindFolder(const std::string& name) {
  std::error_code error;
  if (!fs::is_directory(name, error) || !fs::is_empty(name, error)) return "";
  for (const ShippedFile& file : ListShipped(kWorkloads)) {
    if (LowerCase(file.name) == LowerCase(name)) return file.path;
  }
  return "";
}

absl::StatusOr<std::string> FindWorkload(const std::string& name, std::vector<std::string>& notes) {
  if (std::string hidden = BehindFolder(name); !hidden.empty()) return hidden;
  absl::StatusOr<std::string> shipped = FindShipped(kWorkloads, name);
  std::error_code error;
  const bool file = name.ends_with(".yaml") || name.ends_with(".yml") || fs::exists(name, error);
  const bool path = name.find('/') != std::string::npos;
  if (file && NamesPublishedModel(name)) return PublishedFileOf(name);
  if (file || (shipped.ok() && !path)) return shipped;
  const TrainingModels models("");
  const absl::StatusOr<std::string> named = models.FileOf(name);
  if (!named.ok() || named->empty()) {
    const std::string meant = models.Meant(name);
    if (path || meant.find(" or ") == std::string::npos) return shipped;
    return InvalidInput("workload \"{}\": none is of that name alone; did you mean {}?", name,
                        meant);
  }
  notes.push_back(
      fmt::format("workload {}: taken to be {}", name, fs::path(*named).stem().string()));
  return *named;
}

absl::Status SetSequence(int64_t tokens, ModelFile& model) {
  if (!model.transformer) {
    return InvalidInput("--sequence {}: workload {} is a graph, whose operators state their sizes",
                        tokens, model.workload.name);
  }
  TransformerConfig& config = *model.transformer;
  if (config.sequence == tokens) return absl::OkStatus();
  model.notes.push_back(fmt::format("samples of {} tokens, where the file of {} has {}", tokens,
                                    config.name, config.sequence));
  config.sequence = tokens;
  config.positions = std::max(config.positions, tokens);
  FORETRACE_ASSIGN_OR_RETURN(Workload workload, BuildTransformer(config));
  workload.name = model.workload.name;
  model.workload = std::move(workload);
  return absl::OkStatus();
}

}  // namespace foretrace
