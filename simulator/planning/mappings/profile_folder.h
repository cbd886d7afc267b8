#pragma once
// Which folder of layer profiles is that of a measured run.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/measured_run.h"

namespace foretrace {

// "meta-llama/Llama-3.1-8B" as "llama318b".
std::string PlainModelName(const std::string& name);

// `root` itself where it holds dense.csv; else its folder named HARDWARE_MODEL_tpN of the run's
// model and tensor-parallel degree, whose hardware is named as the run's folder begins, or whose
// HARDWARE_MODEL.meta.yaml names the run's device; else the only one of that model and degree, as
// the run's notes then say. A run that names no device gets the profile's. Errors: none, or several
// with nothing to choose by; the message lists what there is.
absl::StatusOr<std::string> FindProfileFolder(const std::string& root, serve::MeasuredRun& run);

// Where the profile was measured with another release of the engine, whose kernels may be others,
// or on another device than the run's; nothing where it was not, or where nothing says.
std::vector<std::string> ProfileNotes(const std::string& profile_folder,
                                      const serve::MeasuredRun& run);

}  // namespace foretrace
