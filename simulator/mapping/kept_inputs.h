#pragma once
// Inputs that layers are recomputed from: which layers keep one, and what it adds to their passes.
// Layers with a backward pass alone do; of each chunk so many together as
// ParallelMapping::layers_an_input says, the last ones of it fewer where that does not divide them
// (Megatron Core, recompute.py, method uniform).

#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// Whether layer `index` of a chunk, counted from its first one that has a backward pass, is
// recomputed whole: of all of them, of the first ones (ParallelMapping::recomputed_layers), or of
// every so many'th one of the stage (recomputed_every).
bool RunsAgain(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage,
               int32_t chunk, int64_t index);
// How many of a chunk's are, and of all chunks of a stage.
int64_t LayersAgain(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage,
                    int32_t chunk);
int64_t StageLayersAgain(const TransformerConfig& model, const ParallelMapping& mapping,
                         int32_t stage);
// As layers have the mapping that are not, of one where only some are.
ParallelMapping WithoutRecomputation(ParallelMapping mapping);

// Of a chunk that is recomputed whole.
int64_t InputsOf(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage,
                 int32_t chunk);

// Of a chunk of the stage in the mean, with one for each layer of modules for further tokens,
// which are not recomputed where only some layers are (Megatron Core,
// transformer/multi_token_prediction.py).
double MeanInputs(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage);
// Of the stage's largest chunk, at least 1.
int64_t MostTrainedLayers(const TransformerConfig& model, const ParallelMapping& mapping,
                          int32_t stage);

// Infeasible where the words of kept inputs, or of which layers are recomputed, do not go together
// or with the model.
absl::Status CheckKeptInputs(const TransformerConfig& model, const ParallelMapping& mapping);

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
