#pragma once
// Sizes of pooled lookups whose calls have no shapes, by the launches of their backward pass.

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/traced/launch_flow.h"

namespace foretrace {

// Tables of torch.nn.EmbeddingBag with sparse gradients. Grids of lookups are the device's, but
// gradients of bags are gathered for each row that was looked up, a block each
// (aten/src/ATen/native/cuda/IndexKernelUtils.cu, vectorized_gather_kernel), table by table in
// reverse order; what adds them to the tables follows in the order of the tables. The threads of a
// gathered row bound its width, which is one that activations of as many rows have.
class SparseLookups {
 public:
  struct Table {
    int64_t lookups = 0, bytes = 0;  // the latter of a row; 0: not known
  };

  // Keeps references to what it is given until it has looked.
  SparseLookups(const RankTrace& rank, const LaunchFlow& flow, const GpuPeaks& device);

  // Of the kernel at that place, which looks rows up or adds to them. Without lookups: none, or its
  // backward pass does not tell.
  Table Lookup(size_t place) const;
  Table Update(size_t place) const;
  // Bags of each table; 0: not known.
  int64_t bags() const { return bags_; }
  // Of a step; elements of a row that most tables have. 0: not known.
  int64_t tables() const { return tables_of_step_; }
  int64_t width() const { return width_; }

 private:
  void FindLookups(const RankTrace& rank, const LaunchFlow& flow);
  void FindWidths(const LaunchFlow& flow);
  void FindUpdates(const RankTrace& rank, const LaunchFlow& flow, const GpuPeaks& device);

  std::vector<size_t> places_;                 // of lookups
  absl::flat_hash_map<size_t, Table> tables_;  // by these
  absl::flat_hash_map<size_t, Table> updates_;
  int64_t bags_ = 0, tables_of_step_ = 0, width_ = 0;
};

}  // namespace foretrace
