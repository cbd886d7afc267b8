#include "simulator/planning/search_journal.h"

#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

std::string KeyOf(const ParallelMapping& m) {
  return fmt::format("{} gb{}", ToString(m), m.global_batch);
}

// FNV-1a; tells questions apart, nothing more.
uint64_t Fingerprint(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// Doubles in hexadecimal, so that what is read is what was written.
std::string Encode(const std::optional<Evaluation>& e) {
  if (!e) return "infeasible";
  return fmt::format("{} {} {:a} {:a} {:a}", e->iteration.ps(), e->memory.count(), e->bubble,
                     e->exposed_communication, e->model_flop_utilisation);
}

bool Decode(const std::string& text, std::optional<Evaluation>& out) {
  if (text == "infeasible") {
    out = std::nullopt;
    return true;
  }
  int64_t ps = 0, bytes = 0;
  Evaluation e;
  int used = 0;
  if (std::sscanf(text.c_str(), "%" SCNd64 " %" SCNd64 " %la %la %la%n", &ps, &bytes, &e.bubble,
                  &e.exposed_communication, &e.model_flop_utilisation, &used) != 5 ||
      static_cast<size_t>(used) != text.size()) {
    return false;
  }
  const auto is_share = [](double x) { return x >= -1e-6 && x <= 1 + 1e-6; };
  if (ps <= 0 || bytes < 0 || !is_share(e.bubble) || !is_share(e.exposed_communication) ||
      !(e.model_flop_utilisation >= 0 && std::isfinite(e.model_flop_utilisation))) {
    return false;
  }
  e.iteration = SimTime::FromPs(ps);
  e.memory = Bytes(bytes);
  out = e;
  return true;
}

// "mapping | evaluation | checksum of both".
std::string LineOf(const std::string& key, const std::optional<Evaluation>& evaluation) {
  std::string line = fmt::format("{} | {}", key, Encode(evaluation));
  return fmt::format("{} | {:016x}\n", line, Fingerprint(line));
}

bool ReadLine(std::string_view line, std::string& key, std::optional<Evaluation>& evaluation) {
  constexpr std::string_view kBar = " | ";
  const size_t first = line.find(kBar), last = line.rfind(kBar);
  if (first == std::string_view::npos || first == last) return false;
  key = line.substr(0, first);
  const std::string content(line.substr(0, last));
  return line.substr(last + kBar.size()) == fmt::format("{:016x}", Fingerprint(content)) &&
         Decode(content.substr(first + kBar.size()), evaluation);
}

}  // namespace

SearchJournal::SearchJournal(SearchJournal&& other) noexcept
    : file_(std::move(other.file_)),
      out_(std::exchange(other.out_, nullptr)),
      known_(std::move(other.known_)) {}

SearchJournal::~SearchJournal() {
  if (out_ != nullptr) std::fclose(out_);
}

absl::Status SearchJournal::Read(const std::string& text, const std::string& header) {
  if (text.empty()) return absl::OkStatus();
  const std::vector<std::string_view> lines = SplitLines(text);
  if (lines[0] != header) {
    return InvalidInput(
        "{}: the journal of another search (workload, platform, calibration, devices, batch, "
        "memory "
        "or version differ); give another --journal",
        file_);
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    std::string key;
    std::optional<Evaluation> evaluation;
    if (ReadLine(lines[i], key, evaluation)) {
      known_[key] = evaluation;
    } else if (i + 1 < lines.size() || text.back() == '\n') {
      // A search that was killed may leave half a line behind, at the end alone.
      return InvalidInput("{}:{}: damaged; remove the line, or the file to start anew", file_,
                          i + 1);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchJournal> SearchJournal::Open(const std::string& file,
                                                  const std::string& question,
                                                  const Processes& processes) {
  SearchJournal journal;
  journal.file_ = file;
  const std::string header =
      fmt::format("foretrace search journal 2 {:016x}", Fingerprint(question));
  std::string text;
  if (processes.rank() == 0) {
    std::error_code error;
    if (std::filesystem::exists(file, error)) {
      FORETRACE_ASSIGN_OR_RETURN(text, ReadBinaryFile(file, kMaxTableBytes));
    }
  }
  text = processes.Broadcast(std::move(text));
  FORETRACE_RETURN_IF_ERROR(journal.Read(text, header));
  if (processes.rank() != 0) return journal;
  // Rewritten rather than appended to: half a line may be at its end.
  std::string all = header + "\n";
  for (const auto& [key, evaluation] : journal.known_) all += LineOf(key, evaluation);
  FORETRACE_RETURN_IF_ERROR(WriteFile(file, all));
  journal.out_ = std::fopen(file.c_str(), "ab");
  if (journal.out_ == nullptr) {
    return InvalidInput("{}: cannot write the journal: {}", file, std::strerror(errno));
  }
  return journal;
}

absl::Status SearchJournal::Append(const ParallelMapping& mapping,
                                   const std::optional<Evaluation>& evaluation) {
  known_[KeyOf(mapping)] = evaluation;
  if (out_ == nullptr) return absl::OkStatus();
  const std::string line = LineOf(KeyOf(mapping), evaluation);
  if (std::fwrite(line.data(), 1, line.size(), out_) != line.size()) {
    return InvalidInput("{}: cannot write the journal: {}", file_, std::strerror(errno));
  }
  return absl::OkStatus();
}

EvaluateBatch SearchJournal::Wrap(EvaluateBatch next) {
  return [this, next = std::move(next)](std::span<const ParallelMapping> mappings)
             -> absl::StatusOr<std::vector<std::optional<Evaluation>>> {
    std::vector<ParallelMapping> missing;
    for (const ParallelMapping& m : mappings) {
      if (!known_.contains(KeyOf(m))) missing.push_back(m);
    }
    FORETRACE_ASSIGN_OR_RETURN(const auto answers, next(missing));
    for (size_t i = 0; i < missing.size(); ++i) {
      FORETRACE_RETURN_IF_ERROR(Append(missing[i], answers[i]));
    }
    if (out_ != nullptr && std::fflush(out_) != 0) {
      return InvalidInput("{}: cannot write the journal: {}", file_, std::strerror(errno));
    }
    std::vector<std::optional<Evaluation>> out;
    for (const ParallelMapping& m : mappings) out.push_back(known_.at(KeyOf(m)));
    return out;
  };
}

EvaluateBatch OnProcesses(const Processes& processes, EvaluateBatch local) {
  if (processes.size() == 1) return local;
  return [&processes, local = std::move(local)](std::span<const ParallelMapping> mappings)
             -> absl::StatusOr<std::vector<std::optional<Evaluation>>> {
    const auto size = static_cast<size_t>(processes.size());
    std::vector<ParallelMapping> share;
    for (auto i = static_cast<size_t>(processes.rank()); i < mappings.size(); i += size) {
      share.push_back(mappings[i]);
    }
    const auto answers = local(share);
    std::string text;
    if (answers.ok()) {
      for (const auto& answer : *answers) text += Encode(answer) + "\n";
    } else {
      text = "error " + std::string(answers.status().message()) + "\n";
    }
    std::vector<std::optional<Evaluation>> out(mappings.size());
    const std::vector<std::string> all = processes.Gather(std::move(text));
    for (size_t p = 0; p < size; ++p) {
      std::istringstream in(all[p]);
      std::string line;
      for (size_t i = p; std::getline(in, line); i += size) {
        if (line.starts_with("error ")) return InvalidInput("{}", line.substr(6));
        if (i >= out.size() || !Decode(line, out[i])) {
          return absl::InternalError("a process answered what it was not asked");
        }
      }
    }
    return out;
  };
}

}  // namespace foretrace
