#pragma once

#include <cstdint>
#include <string_view>

#include "simulator/base/time.h"

namespace foretrace {

// Where a duration comes from, from the strongest evidence to none.
enum class EstimateSource : uint8_t { kRecorded, kCalibrated, kAnalytic, kMissing, kCount };
std::string_view Name(EstimateSource source);

struct Estimate {
  SimTime time;
  EstimateSource source = EstimateSource::kMissing;
  // The query lay outside the range that the model was calibrated on.
  bool extrapolated = false;
};

}  // namespace foretrace
