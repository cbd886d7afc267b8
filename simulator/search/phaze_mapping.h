#pragma once
// Phaze's device placement of a transformer of equal layers, as a mapping.

#include "absl/status/statusor.h"
#include "simulator/search/mapping_search.h"
#include "simulator/search/phaze.h"

namespace foretrace {

struct PhazeMapping {
  RankedMapping ranked;
  RealSeconds estimate;  // of an iteration, by the program's own formula
};

// Layers of a placement problem: those of the model in their order, the first with the embedding,
// the last with the output layer. Times are those of the iteration model, memory that of the memory
// model. Errors: as TimePasses.
absl::StatusOr<PhazeLayers> PhazeLayersOf(const TransformerConfig& model,
                                          const ClusterParameters& cluster, Bandwidth link,
                                          const PhazeOption& option);

// The program's plan at every tensor-parallel width and micro-batch that divide (up to the space's
// most), with layers' activations kept and with each layer recomputed; of these the one of the
// shortest simulated iteration. 1F1B; all devices are used, replicas have equal numbers of
// micro-batches. Errors: infeasible where none fits.
absl::StatusOr<PhazeMapping> SearchPhazeMapping(const TransformerConfig& model,
                                                const ClusterParameters& cluster, Bytes capacity,
                                                const MappingSpace& space);

}  // namespace foretrace
