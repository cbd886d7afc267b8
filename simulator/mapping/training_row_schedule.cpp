// The order of a row's pipeline.

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/training_row_fields.h"
#include "simulator/mapping/training_row_text.h"

namespace foretrace {
namespace {

// Names of PyTorch's schedules (torch/distributed/pipelining/schedules.py) and of publications.
// Those without a kind are orders that no word of a mapping has.
struct NamedSchedule {
  std::string_view name;
  std::initializer_list<std::string_view> terms;
  std::optional<ScheduleKind> kind;
  bool interleaves = false;
};
// Of two that begin at the same word with as many, the first is meant.
const NamedSchedule kSchedules[] = {
    {"dualpipev", {"dualpipev*", "dual pipe v", "dualpipe v"}, ScheduleKind::kDualPipeV},
    {"interleavedzerobubble",
     {"interleavedzerobubble*", "interleaved zero bubble*", "interleaved zerobubble*"},
     ScheduleKind::kZeroBubbleH1,
     true},
    {"zbv",
     {"zbv*", "zb v", "zerobubblev*", "zero bubble v", "zerobubble v"},
     ScheduleKind::kZeroBubbleV},
    {"zb-h2", {"zbh2", "zb h2", "zerobubbleh2", "zero bubble h2", "zerobubble h2"}, std::nullopt},
    {"loopedbfs", {"loopedbfs*", "looped bfs"}, std::nullopt, true},
    {"dualpipe", {"dualpipe*", "dual pipe"}, ScheduleKind::kDualPipe},
    {"zbh1", {"zbh1", "zb h1", "zero bubble h1"}, ScheduleKind::kZeroBubbleH1},
    {"zerobubble", {"zerobubble*", "zero bubble*"}, ScheduleKind::kZeroBubbleH1},
    {"gpipe", {"gpipe*"}, ScheduleKind::kGPipe},
    {"interleaved", {"interleaved*"}, ScheduleKind::k1F1B, true},
    {"1f1b", {"1f1b*"}, ScheduleKind::k1F1B}};

const NamedSchedule* Named(std::string_view name) {
  const auto* found = std::ranges::find(kSchedules, name, &NamedSchedule::name);
  return found == std::end(kSchedules) ? nullptr : found;
}

// As PyTorch's classes are called, too ("ScheduleGPipe").
std::vector<std::string> ScheduleWords(const std::string& said) {
  std::vector<std::string> words = TextWords(said);
  constexpr std::string_view kClass = "schedule";
  for (std::string& word : words) {
    const bool longer = word.starts_with(kClass) && word.size() > kClass.size() + 1;
    if (longer) word.erase(0, kClass.size());
  }
  return words;
}

// The one that is named first; what says more of it may stand apart: "1F1B, interleaved", "zero
// bubble (ZB-H2)".
const NamedSchedule* ScheduleIn(const std::string& said) {
  const std::vector<std::string> words = ScheduleWords(said);
  const NamedSchedule* found = nullptr;
  for (size_t at = 0; at < words.size() && found == nullptr; ++at) {
    size_t longest = 0;
    for (const NamedSchedule& schedule : kSchedules) {
      for (const std::string_view term : schedule.terms) {
        const size_t count = TermAt(words, at, term);
        if (count <= longest) continue;
        longest = count;
        found = Denied(words, at, count) ? nullptr : &schedule;
      }
    }
  }
  if (found == nullptr) return nullptr;
  const auto more = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      const NamedSchedule* other = Named(name);
      if (ToldOf(words, other->terms) == Told::kYes) return other;
    }
    return found;
  };
  if (found->name == "1f1b") return more({"interleaved"});
  return found->name == "zerobubble" ? more({"interleavedzerobubble", "zbv", "zb-h2"}) : found;
}

// Of a column that names none.
void NoteUnknown(const std::string& said, TrainingRow& row) {
  if (ToldOf(ScheduleWords(said), {"interleaved*"}) == Told::kNo) return;
  NoteUnread(
      fmt::format("schedule '{}' is none that is known (GPipe, 1F1B, interleaved, ZB-H1, ZB-V, "
                  "DualPipe): taken as {}1F1B",
                  said, row.mapping.chunks > 1 ? "interleaved " : ""),
      row);
}

// Two chunks a stage of what interleaves, unless the row says how many.
void Interleave(const Fields& f, const NamedSchedule& schedule, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  const std::string column = f.Text("vp");
  const bool stated =
      (f.States("vp") && column != "0" && column != "0.0") || DegreeWord(f, "vp").has_value();
  if (!stated) {
    m.chunks = 2;
    row.notes.emplace_back("two chunks a stage, as it is interleaved and vp is not stated");
  } else if (m.chunks == 1) {
    row.notes.push_back(fmt::format("schedule {}, but vp 1 leaves one chunk a stage: taken as 1F1B",
                                    schedule.name));
  }
}

bool HasWord(const Fields& f) {
  const std::vector<std::string> words = MappingWords(f.Text("mapping"));
  return std::ranges::any_of(
      words, [](const std::string& word) { return ParseEnum<ScheduleKind>(word).has_value(); });
}

void NoteNotCovered(std::string_view schedule, std::string_view why, TrainingRow& row) {
  row.notes.push_back(fmt::format("schedule {} is not covered{}: taken as {}1F1B", schedule, why,
                                  row.mapping.chunks > 1 ? "interleaved " : ""));
}

}  // namespace

std::string SetPipeline(const Fields& f, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  if (m.pipeline == 1) return "";
  const std::string column = f.Text("schedule");
  const NamedSchedule* schedule = ScheduleIn(column.empty() ? f.Text("note") : column);
  // The software's own is another one where the row says which.
  const bool dual = schedule != nullptr && schedule->kind == ScheduleKind::kDualPipe;
  if (f.States("schedule") && !dual) row.software.dual_pipe = false;
  if (schedule == nullptr) {
    if (f.States("schedule") && !HasWord(f)) NoteUnknown(column, row);
    return "";
  }
  if (schedule->interleaves) Interleave(f, *schedule, row);
  if (HasWord(f)) return "";
  if (!schedule->kind) {
    const bool said = schedule->interleaves && m.chunks == 1;
    if (!said) NoteNotCovered(schedule->name, "", row);
    return "";
  }
  m.schedule = *schedule->kind;
  if (m.returns()) m.chunks = 2;
  return std::string(schedule->name);
}

void SettleSchedule(const std::string& schedule, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  if (schedule.empty() || m.schedule == ScheduleKind::k1F1B || !CheckDegrees(m).ok()) return;
  // Of as many layers as there are chunks: how a model's own are divided is another matter.
  TransformerConfig model;
  model.layers = int64_t{m.pipeline} * m.chunks;
  ParallelMapping even = m;
  even.layers.clear();
  even.counted_ends = false;
  if (CheckStages(model, even).ok()) return;
  // Two chunks a stage are then interleaved, where that can be.
  if (m.returns() && m.microbatches() % m.pipeline != 0) m.chunks = 1;
  m.schedule = ScheduleKind::k1F1B;
  NoteNotCovered(schedule, " with these degrees", row);
}

bool SaysOtherSchedule(const Fields& f, const ParallelMapping& stated) {
  if (!HasWord(f) || !f.States("schedule")) return false;
  const NamedSchedule* schedule = ScheduleIn(f.Text("schedule"));
  return schedule != nullptr && schedule->kind && *schedule->kind != stated.schedule;
}

}  // namespace foretrace
