#pragma once
// How large a job's weights are, by the copies that frameworks make of them.

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "simulator/cost/traced/moved_elements.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Frameworks that shard parameters (PyTorch's FSDP2: torch/distributed/fsdp/_fully_shard/
// _fsdp_collectives.py, all_gather_copy_in) lay those of a layer side by side before they gather
// them: each is cast, where it is kept in another type, and copied, so that casts, or copies within
// the device, follow each other, of a layer more than an operator has arguments. Otherwise none is
// known: casts of an operator's arguments are some weights', not all. A recorded rank's are its
// shards: as many as there are ranks make a whole, where the tensor is not padded.
class WeightSizes {
 public:
  // `element`: of what the job computes in.
  WeightSizes(const TraceStore& store, const RankTrace& rank, const MovedElements& moved,
              Bytes element);

  // Whether a kernel casts a weight that is gathered.
  bool Gathers(NodeIndex kernel) const { return casts_.contains(kernel); }
  // Whether a weight may have so many elements.
  bool Has(int64_t elements) const;
  // The same, as far as a vector is told from others.
  bool HasVector(int64_t elements) const {
    const auto at = sizes_.find(elements);
    return at != sizes_.end() && elements > at->second;
  }
  // 0: none is known.
  int64_t largest() const { return sizes_.empty() ? 0 : sizes_.rbegin()->first; }
  // Elements, where casts say them rounded up to whole blocks, and by how many at most.
  const std::map<int64_t, int64_t>& all() const { return sizes_; }

 private:
  struct Copy {
    int64_t elements = 0, rounded = 1;
  };
  struct Run {
    std::vector<Copy> copies;
    std::vector<NodeIndex> casts;  // those of them that are kernels
  };
  void Add(const Run& run);
  void Add(const Copy& copy);

  int64_t shards_ = 1;
  absl::flat_hash_set<NodeIndex> casts_;
  std::map<int64_t, int64_t> sizes_;
};

}  // namespace foretrace
