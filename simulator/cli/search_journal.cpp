#include "simulator/cli/search_journal.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "simulator/base/error.h"
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
  e.iteration = SimTime::FromPs(ps);
  e.memory = Bytes(bytes);
  out = e;
  return true;
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
  std::istringstream in(text);
  std::string line;
  if (!std::getline(in, line)) return absl::OkStatus();
  if (line != header) {
    return InvalidInput(
        "{}: the journal of another search (workload, platform, calibration, devices, "
        "batch or memory differ); give another --journal",
        file_);
  }
  for (int number = 2; std::getline(in, line); ++number) {
    const size_t bar = line.find(" | ");
    std::optional<Evaluation> evaluation;
    const bool whole =
        !in.eof() && bar != std::string::npos && Decode(line.substr(bar + 3), evaluation);
    if (!whole) {
      // A search that was killed may leave half a line behind, at the end alone.
      if (in.eof() || in.peek() == EOF) return absl::OkStatus();
      return InvalidInput("{}:{}: damaged; remove the file to start anew", file_, number);
    }
    known_[line.substr(0, bar)] = evaluation;
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchJournal> SearchJournal::Open(const std::string& file,
                                                  const std::string& question,
                                                  const Processes& processes) {
  SearchJournal journal;
  journal.file_ = file;
  const std::string header =
      fmt::format("foretrace search journal 1 {:016x}", Fingerprint(question));
  std::string text;
  if (processes.rank() == 0) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream content;
    if (in) content << in.rdbuf();
    text = content.str();
  }
  text = processes.Broadcast(std::move(text));
  FORETRACE_RETURN_IF_ERROR(journal.Read(text, header));
  if (processes.rank() != 0) return journal;
  // Rewritten rather than appended to: half a line may be at its end.
  journal.out_ = std::fopen(file.c_str(), "wb");
  if (journal.out_ == nullptr) {
    return InvalidInput("{}: cannot write the journal: {}", file, std::strerror(errno));
  }
  std::string all = header + "\n";
  for (const auto& [key, evaluation] : journal.known_) {
    all += fmt::format("{} | {}\n", key, Encode(evaluation));
  }
  if (std::fwrite(all.data(), 1, all.size(), journal.out_) != all.size() ||
      std::fflush(journal.out_) != 0) {
    return InvalidInput("{}: cannot write the journal: {}", file, std::strerror(errno));
  }
  return journal;
}

absl::Status SearchJournal::Append(const ParallelMapping& mapping,
                                   const std::optional<Evaluation>& evaluation) {
  known_[KeyOf(mapping)] = evaluation;
  if (out_ == nullptr) return absl::OkStatus();
  const std::string line = fmt::format("{} | {}\n", KeyOf(mapping), Encode(evaluation));
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
