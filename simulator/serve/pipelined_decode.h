#pragma once
// Prefill and decode on dataflow devices in a ring, in closed form (DFModel, section VIII-A): terms
// that do not overlap, as that study adds them.

#include <cstdint>

#include "simulator/base/real_quantities.h"

namespace foretrace::serve {

// One pass of a model over one request. As published a prompt pays for no attention, and its
// weights pass by while it computes.
struct DataflowPass {
  int64_t hidden = 4096, layers = 32;
  int64_t weights = 0;  // elements of a layer
  int64_t tokens = 1;   // that are computed
  int64_t context = 0;  // tokens attended to
  bool reads_weights = true;
  int64_t width = 2;  // bytes of an element
  int32_t tensor = 1, pipeline = 1;
  FlopRate rate;  // of a device, that it reaches
  Bandwidth memory, link;
  SimTime hop;
};

// Of a layer.
struct PassTerms {
  RealUs compute, memory, latency, serialisation;
  RealUs total() const { return compute + memory + latency + serialisation; }
};
PassTerms TermsOf(const DataflowPass& pass);
// Through all layers, and from stage to stage.
RealUs TimeOf(const DataflowPass& pass);
// Requests follow each other at the pace of a stage: tokens/s of all of them.
double PassTokensPerSecond(const DataflowPass& pass);

}  // namespace foretrace::serve
