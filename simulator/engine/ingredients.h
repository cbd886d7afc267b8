#pragma once
// Ablation: a compiled job without one of the things that decide when its work runs.

#include "simulator/engine/compile.h"

namespace foretrace {

enum class Ingredient : uint8_t {
  kRankSync,    // members of communication wait for each other
  kStreamSync,  // work of one stream waits for that of others
  kCpu,         // calls, and what lies between them, take time
  kBlocking,    // calls wait for the device
  kContention,  // kernels of several streams share the device
  kFences,      // kernels wait for the stores of collectives beside them
  kStartSkew,   // ranks begin as far apart as recorded
};

// Durations of work stay as they are. Traces without times have the first alone.
void LeaveOut(Ingredient what, CompiledJob& job);

}  // namespace foretrace
