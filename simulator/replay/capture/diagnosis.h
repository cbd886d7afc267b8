#pragma once
// What a capture holds and lacks for predictions: one finding for each kind of evidence that the
// replay can use, with what its absence costs and how to record it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simulator/engine/replay.h"
#include "simulator/importers/profile_extras.h"
#include "simulator/reconstruct/communicators.h"
#include "simulator/replay/capture/inspection.h"
#include "simulator/report/text_table.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

enum class FindingState : uint8_t {
  kHolds,
  kLacks,     // and something is lost for it
  kOptional,  // lacks; no figure of the replay depends on it
  kDoubt,     // holds it, but what it says is in doubt
};
std::string_view Name(FindingState state);

struct Finding {
  std::string what;  // "shapes", "steps"
  FindingState state = FindingState::kHolds;
  std::string found;   // what there is
  std::string cost;    // what the lack costs; empty where nothing lacks
  std::string remedy;  // the lines that record it; empty where nothing lacks
};

struct Diagnosis {
  std::string source;
  std::vector<Finding> findings;

  bool Sound() const;           // nothing lacks and nothing is in doubt
  std::string Verdict() const;  // one sentence
};

// What else is known of the capture besides its traces.
struct DiagnosisInput {
  std::span<const ProfileExtras> extras;
  const Inspection* inspection = nullptr;
  const Prediction* prediction = nullptr;  // of the unchanged recording; null: it has none
  std::string no_prediction;               // why
};

Diagnosis Diagnose(const TraceStore& store, const DiagnosisInput& input);

std::string DiagnosisText(const Diagnosis& diagnosis, const TextStyle& style);
std::string DiagnosisJson(const Diagnosis& diagnosis);

}  // namespace foretrace
