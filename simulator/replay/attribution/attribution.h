#pragma once
// The time of a predicted step by module, line, range, operator, kernel or stream: how much of it
// each spends on the CPU and the device, communicates without hiding it, waits, and has on the
// critical path.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"
#include "simulator/importers/profile_extras.h"
#include "simulator/report/critical_path.h"
#include "simulator/report/event_table.h"
#include "simulator/report/prediction_report.h"
#include "simulator/report/text_table.h"

namespace foretrace {

enum class AttributeTo : uint8_t { kModule, kLine, kRange, kOp, kKernel, kStream };

// Times of one step, summed over ranks.
struct SpentTime {
  SimTime cpu;                    // of its spans, without what is within them; trees alone
  SimTime device;                 // kernels, copies, and communication from its last arrival
  SimTime exposed_communication;  // ExposedParts
  SimTime waiting;                // of communication for its last member, of calls for the device
  SimTime critical_path;          // of the step's critical path

  SpentTime& operator+=(const SpentTime& other);
};

struct AttributedRow {
  std::string name;
  int32_t parent = -1;  // row; -1: at the top
  int32_t depth = 0;
  int64_t count = 0;  // calls, or nodes of flat kinds
  SpentTime own;
  SpentTime total;  // with what is within
};

struct Attribution {
  AttributeTo to = AttributeTo::kModule;
  std::vector<AttributedRow> rows;  // parents before children, of equals the one with most first
  SpentTime outside;                // of no row
  // Trees: of work that was in flight when recording began, whose calls nothing says the place of.
  SpentTime unlaunched;
  SimTime device;  // all device time: of rows, outside and unlaunched
  SimTime step;    // length of the critical path
  // Of which all but the CPU's spans and the waits of its calls is, which are between the marks.
  StepWindow window = StepWindow::kMarks;

  // Of the device time whose calls are recorded, how much rows have.
  double attributed_share() const;
};

struct AttributionInput {
  const EventTable* table = nullptr;
  const Prediction* prediction = nullptr;
  std::span<const IterationWindow> windows;  // by rank, of the step: what its device does for it
  std::span<const IterationWindow> marks;    // between its marks on the CPU
  const CriticalPath* path = nullptr;
  std::span<const ProfileExtras> extras;
  StepWindow window = StepWindow::kMarks;  // of `windows`
};

// Work of a backward pass belongs to the module whose forward operator has its number. Errors: the
// traces hold nothing of the kind, with how to record it.
absl::StatusOr<Attribution> Attribute(AttributeTo to, const AttributionInput& input);

std::string AttributionText(const Attribution& attribution, size_t most, const TextStyle& style);
// A member of a document: {"to": ..., "rows": [...]}.
std::string AttributionJson(const Attribution& attribution);
// https://www.speedscope.app/file-format-schema.json: device time of each row.
std::string SpeedscopeJson(const Attribution& attribution);

}  // namespace foretrace
