#include "simulator/planning/mappings/search_journal.h"

#include <cinttypes>
#include <cmath>
#include <sstream>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

std::string KeyOf(const ParallelMapping& m) {
  return fmt::format("{} gb{}", ToString(m), m.global_batch);
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

}  // namespace

absl::StatusOr<SearchJournal> SearchJournal::Open(const std::string& file,
                                                  const std::string& question,
                                                  const Processes& processes) {
  FORETRACE_ASSIGN_OR_RETURN(
      LineJournal lines,
      LineJournal::Open(
          file,
          {"search journal 3", question, "workload, platform, calibration, devices, batch, memory"},
          processes));
  return SearchJournal(std::move(lines));
}

EvaluateBatch SearchJournal::Wrap(EvaluateBatch next) {
  return [this, next = std::move(next)](std::span<const ParallelMapping> mappings)
             -> absl::StatusOr<std::vector<std::optional<Evaluation>>> {
    std::vector<ParallelMapping> missing;
    for (const ParallelMapping& m : mappings) {
      if (lines_.Find(KeyOf(m)) == nullptr) missing.push_back(m);
    }
    FORETRACE_ASSIGN_OR_RETURN(const auto answers, next(missing));
    for (size_t i = 0; i < missing.size(); ++i) {
      FORETRACE_RETURN_IF_ERROR(lines_.Append(KeyOf(missing[i]), Encode(answers[i])));
    }
    FORETRACE_RETURN_IF_ERROR(lines_.Flush());
    std::vector<std::optional<Evaluation>> out(mappings.size());
    for (size_t i = 0; i < mappings.size(); ++i) {
      if (!Decode(*lines_.Find(KeyOf(mappings[i])), out[i])) {
        return InvalidInput("{}: what it holds of '{}' cannot be read; remove the line",
                            lines_.file(), KeyOf(mappings[i]));
      }
    }
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
