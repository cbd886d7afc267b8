#pragma once
// Inputs that layers are recomputed from: which layers keep one, and what it adds to their passes.
// Layers with a backward pass alone do; of each chunk so many together as
// ParallelMapping::layers_an_input says, the last ones of it fewer where that does not divide them
// (Megatron Core, recompute.py, method uniform).

#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// Of a chunk that is recomputed whole.
int64_t InputsOf(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage,
                 int32_t chunk);

// Of a chunk of the stage in the mean, with one for each module that predicts a further token.
double MeanInputs(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage);
// Of the stage's largest chunk, at least 1.
int64_t MostTrainedLayers(const TransformerConfig& model, const ParallelMapping& mapping,
                          int32_t stage);

struct ChunkPass {
  int32_t stage = 0, chunk = 0;
  bool forward = true;
};

// What an input adds to a pass.
struct KeptTimes {
  const KeptInput* input = nullptr;
  SimTime exposed;  // without kernels, its gathering included

  SimTime kernels() const { return input != nullptr ? input->kernels : SimTime(); }
  SimTime all() const { return kernels() + exposed; }
};

// At layer `index` of the pass, counted as the pass goes: at the first one of those that share an
// input, of all of them. Nothing elsewhere.
KeptTimes KeptInPass(const TransformerConfig& model, const ParallelMapping& mapping, ChunkPass pass,
                     int64_t index, const PassTimes& times);

// Of all inputs of the pass.
SimTime KernelsOfInputs(const TransformerConfig& model, const ParallelMapping& mapping,
                        ChunkPass pass, const PassTimes& times);

}  // namespace foretrace
