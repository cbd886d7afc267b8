#pragma once
// The file formats in which published partitioners take their inputs.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/search/pipedream.h"
#include "simulator/search/piper.h"

namespace foretrace {

// PipeDream's profile: lines "NODE -- DESCRIPTION -- forward_compute_time=MS, ..." and, indented by
// a tab, "NODE -- NODE". As its optimizer does, drops sources named Input* and sinks named
// __getitem__*.
absl::StatusOr<PipeDreamProblem> LoadPipeDreamProfile(const std::string& path);

// Piper's JSON instance. Node ids are replaced by positions.
absl::StatusOr<PiperProblem> LoadPiperProblem(const std::string& path);

}  // namespace foretrace
