#include "simulator/planning/files/journaled_runner.h"

#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// Errors begin with the number of their code, answers with nothing but themselves.
constexpr std::string_view kError = "error ";

absl::Status ErrorOf(const std::string& line) {
  int code = 0;
  const size_t space = line.find(' ', kError.size());
  if (space == std::string::npos ||
      !absl::SimpleAtoi(line.substr(kError.size(), space - kError.size()), &code)) {
    return absl::InternalError("a process answered what it was not asked");
  }
  return absl::Status(static_cast<absl::StatusCode>(code), line.substr(space + 1));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> JournaledRunner::Missing(
    std::span<const std::string> keys, const std::vector<size_t>& missing,
    const PartOfWork& work) const {
  const auto size = static_cast<size_t>(processes_.size());
  std::vector<size_t> share;
  std::vector<std::string> own_keys;
  for (auto k = static_cast<size_t>(processes_.rank()); k < missing.size(); k += size) {
    share.push_back(missing[k]);
    own_keys.push_back(keys[missing[k]]);
  }
  absl::StatusOr<std::vector<std::string>> own =
      local_.Run(own_keys, [&](size_t i, size_t thread) { return work(share[i], thread); });
  if (size == 1) return own;
  std::string text;
  if (own.ok()) {
    for (const std::string& answer : *own) text += answer + "\n";
  } else {
    text = std::string(kError) + std::to_string(static_cast<int>(own.status().code())) + " " +
           std::string(own.status().message()) + "\n";
  }
  const std::vector<std::string> all = processes_.Gather(std::move(text));
  std::vector<std::string> answers(missing.size());
  for (size_t p = 0; p < size; ++p) {
    std::istringstream in(all[p]);
    std::string line;
    for (size_t k = p; std::getline(in, line); k += size) {
      if (line.starts_with(kError)) return ErrorOf(line);
      if (k >= answers.size()) {
        return absl::InternalError("a process answered what it was not asked");
      }
      answers[k] = line;
    }
  }
  return answers;
}

absl::StatusOr<std::vector<std::string>> JournaledRunner::Run(std::span<const std::string> keys,
                                                              const PartOfWork& work) const {
  std::vector<std::string> answers(keys.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string* known = journal_ == nullptr ? nullptr : journal_->Find(keys[i]);
    if (known != nullptr) {
      answers[i] = *known;
    } else {
      missing.push_back(i);
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(std::vector<std::string> found, Missing(keys, missing, work));
  for (size_t k = 0; k < missing.size(); ++k) {
    if (journal_ != nullptr) {
      FORETRACE_RETURN_IF_ERROR(journal_->Append(keys[missing[k]], found[k]));
    }
    answers[missing[k]] = std::move(found[k]);
  }
  if (journal_ != nullptr) FORETRACE_RETURN_IF_ERROR(journal_->Flush());
  return answers;
}

}  // namespace foretrace
