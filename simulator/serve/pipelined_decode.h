#pragma once
// Decode on dataflow devices in a ring, in closed form (DFModel, section VIII-A): terms that do not
// overlap, as that study adds them.

#include <cstdint>

#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace::serve {

// Its layer: no grouped heads, weights of 13 h^2.
struct DataflowDecode {
  int64_t hidden = 4096, layers = 32;
  int64_t weights = 0;  // elements of a layer
  int64_t context = 0;  // tokens attended to
  int64_t width = 2;    // bytes of an element
  int32_t tensor = 1, pipeline = 1;
  FlopRate rate;  // of a device, that it reaches
  Bandwidth memory, link;
  SimTime hop;
};

// Of a layer, for one token.
struct DecodeTerms {
  double compute_us = 0, memory_us = 0, latency_us = 0, serialisation_us = 0;
  double us() const { return compute_us + memory_us + latency_us + serialisation_us; }
};
DecodeTerms TermsOf(const DataflowDecode& decode);
// Through all layers, and from stage to stage.
double StepUs(const DataflowDecode& decode);

}  // namespace foretrace::serve
