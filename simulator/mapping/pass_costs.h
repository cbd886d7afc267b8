#pragma once
// Durations of a micro-batch's passes, and what an iteration adds to them.

#include "simulator/mapping/iteration_model.h"

namespace foretrace {

// What a micro-batch's passes depend on of a mapping, all else at its default. PassesOfLayers of it
// are those of the mapping.
ParallelMapping PassView(const ParallelMapping& mapping);

// Of layers and of what is outside of them, with their exchanges; nothing between stages, and
// nothing that ends an iteration. `layer`: of the model and the mapping. Errors: an exchange that
// the network cannot time.
absl::StatusOr<PassTimes> PassesOfLayers(const TransformerConfig& model,
                                         const ParallelMapping& mapping,
                                         const ClusterParameters& cluster,
                                         const MappedLayer& layer);

// Adds to these what passes between stages, the reductions after the last backward pass and the
// optimizer. `experts_apart`: some layers have experts that devices divide, whose weights have an
// optimizer of their own (SoftwareBehaviour::gathers_twice), if not these. Errors: the same.
absl::Status AddIterationCosts(const TransformerConfig& model, const ParallelMapping& mapping,
                               const ClusterParameters& cluster, const MappedLayer& layer,
                               bool experts_apart, PassTimes& times);

}  // namespace foretrace
