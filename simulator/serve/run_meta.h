#pragma once
// meta.json of a measured run.

#include <string>

#include "absl/status/status.h"
#include "simulator/serve/measured_run.h"

namespace foretrace::serve {

// How the engine was set up. What the file leaves out, leaves null or tags ("<list len=65>", which
// the bench writes for what it cannot hold) is as the release sets it. Of engine_kwargs and
// resolved_config the latter counts, since it is what the engine ran with. Errors name file and
// key.
absl::Status ReadRunMeta(const std::string& file, MeasuredRun& run);

// The defaults of the release that is nearest below `version` of `engine` ("vllm"), else of the
// nearest above, which `notes` then say. Errors: an engine of which no release is known.
absl::StatusOr<EngineConfig> LoadRelease(const std::string& engine, const std::string& version,
                                         std::vector<std::string>& notes);

}  // namespace foretrace::serve
