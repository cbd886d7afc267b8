#pragma once
// Times of a layer's operators on one accelerator.

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/architect/design_space.h"
#include "simulator/architect/layer_work.h"

namespace foretrace {

struct OpTimes {
  SimTime one, all;
};

// Estimates for one design. Cycles of GEMMs depend on its tensor cores and buffer alone,
// and are kept for the next design that has the same.
class CoreEstimator {
 public:
  explicit CoreEstimator(const MachineBase& machine) : machine_(machine) {}

  void SetDesign(const AcceleratorDesign& design);
  // Of an operator of a layer that `width` devices share. A fused operator's two parts run at once.
  // An all-reduce sends 2 (width - 1) / width of its size over the link (ring; appendix C.2) and
  // adds it up on vector cores.
  OpTimes Of(const LayerOp& op, int32_t width);
  CoreGraph Timed(const LayerWork& work, int32_t width);
  // No schedule of Timed(work) is shorter: its longest path, and the load of each kind of core.
  SimTime Bound(const LayerWork& work, int32_t width);

 private:
  struct Cycles {
    int64_t one = 0, all = 0;
  };
  struct GemmHash {
    size_t operator()(const Gemm& g) const { return absl::HashOf(g.batch, g.m, g.n, g.k); }
  };
  Cycles OfGemm(const Gemm& gemm);

  MachineBase machine_;
  AcceleratorDesign design_;
  absl::flat_hash_map<Gemm, Cycles, GemmHash> gemms_;
  std::vector<SimTime> tails_;
};

}  // namespace foretrace
