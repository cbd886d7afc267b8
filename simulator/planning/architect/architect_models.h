#pragma once
// Models that the search of accelerators is for.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/architect/evaluate.h"
#include "simulator/console/command.h"

namespace foretrace {

// Whether a model is given as a recording of an iteration, not as a model file or the name of one.
bool IsRecording(const std::string& name);

// A model file or the name of one that ships, or a recording of an iteration of `samples`, at every
// width and micro-batch of the setup that it allows. `inputs` learns the bytes of a file, or what
// is read off a recording; `notes`, which file a name was taken to mean. Errors: no such file;
// operators without a class; a recording of how many samples is not said.
absl::StatusOr<ArchitectModel> LoadArchitectModel(const std::string& name, int32_t samples,
                                                  const TrainingSetup& setup,
                                                  const CommandContext& context,
                                                  std::string& inputs,
                                                  std::vector<std::string>& notes);

}  // namespace foretrace
