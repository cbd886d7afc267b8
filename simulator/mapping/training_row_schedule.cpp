// The order of a row's pipeline.

#include <algorithm>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/training_row_fields.h"

namespace foretrace {
namespace {

// Names of PyTorch's schedules (torch/distributed/pipelining/schedules.py) and of publications; the
// first that is there is meant. Those without a kind are orders that no word of a mapping has.
struct NamedSchedule {
  std::string_view name;
  std::optional<ScheduleKind> kind;
  bool interleaves = false;
};
constexpr NamedSchedule kSchedules[] = {{"dualpipev", std::nullopt},
                                        {"interleavedzerobubble", std::nullopt, true},
                                        {"zbv", std::nullopt},
                                        {"zerobubblev", std::nullopt},
                                        {"loopedbfs", std::nullopt, true},
                                        {"dualpipe", ScheduleKind::kDualPipe},
                                        {"zbh1", ScheduleKind::kZeroBubbleH1},
                                        {"zerobubble", ScheduleKind::kZeroBubbleH1},
                                        {"gpipe", ScheduleKind::kGPipe},
                                        {"interleaved", ScheduleKind::k1F1B, true}};

const NamedSchedule* ScheduleIn(const std::string& said) {
  std::string text = LowerCase(said);
  std::erase_if(text, [](char c) { return c == ' ' || c == '-' || c == '_'; });
  const auto* found = std::ranges::find_if(kSchedules, [&](const NamedSchedule& schedule) {
    const size_t at = text.find(schedule.name);
    if (at == std::string::npos) return false;
    const std::string_view before = std::string_view(text).substr(0, at);
    return !before.ends_with("no") && !before.ends_with("not") && !before.ends_with("non") &&
           !before.ends_with("without");
  });
  return found == std::end(kSchedules) ? nullptr : found;
}

// Whether the mapping can have the schedule (CheckSchedule).
bool CanBe(ScheduleKind kind, const ParallelMapping& m) {
  if (kind == ScheduleKind::k1F1B) return true;
  if (m.chunks > 1) return false;
  if (kind != ScheduleKind::kDualPipe) return true;
  const bool sizes = m.data > 0 && m.micro_batch > 0;
  return sizes && m.pipeline % 2 == 0 && m.microbatches() % 2 == 0 &&
         m.microbatches() / 2 >= m.pipeline;
}

}  // namespace

void SetPipeline(const Fields& f, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  if (m.pipeline == 1) return;
  const NamedSchedule* schedule = ScheduleIn(f.Text("schedule"));
  if (schedule == nullptr) schedule = ScheduleIn(f.Text("note"));
  if (schedule == nullptr) return;
  if (schedule->interleaves && !f.States("vp") && !DegreeWord(f, "vp")) {
    m.chunks = 2;
    row.notes.emplace_back("two chunks a stage, as it is interleaved and vp is not stated");
  }
  if (schedule->kind && CanBe(*schedule->kind, m)) {
    m.schedule = *schedule->kind;
    return;
  }
  row.notes.push_back(fmt::format("schedule {} is not covered{}: taken as {}1F1B", schedule->name,
                                  schedule->kind ? " with these degrees" : "",
                                  m.chunks > 1 ? "interleaved " : ""));
}

}  // namespace foretrace
