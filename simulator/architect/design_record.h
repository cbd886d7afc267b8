#pragma once
// Evaluated designs as lines of text, for journals and other processes: what is read is what was
// written, to the bit.

#include <optional>
#include <string>

#include "simulator/architect/evaluate.h"

namespace foretrace {

// Plans of one design, and what scheduling its layers came to (its seconds are not written).
struct DesignRecord {
  std::vector<ModelPlan> plans;
  double score = 0;
  ScheduleStatistics statistics;
};

std::string Encode(const DesignRecord& record);
// nullopt: it is no such line.
std::optional<DesignRecord> DecodeRecord(const std::string& line);

std::string EncodeNumbers(const std::vector<double>& numbers);
std::optional<std::vector<double>> DecodeNumbers(const std::string& line);

}  // namespace foretrace
