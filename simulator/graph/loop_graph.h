#pragma once
// An operator graph whose operators are nests of four loops, outer x m x n results of k terms each,
// which mappings divide over chips and stream through them (DFModel section III-B). What a nest
// computes and holds follows from its sizes here alone.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/graph/operator_graph.h"

namespace foretrace {

enum class Loop : uint8_t { kOuter, kM, kK, kN, kCount };
inline constexpr size_t kLoops = static_cast<size_t>(Loop::kCount);
std::string_view Name(Loop loop);
using LoopSizes = std::array<int64_t, kLoops>;

// Of a nest of such sizes. A multiply-add is two; what is no GEMM does one operation a result.
Flop NestFlop(bool gemm, const LoopSizes& size);
double ResultElements(const LoopSizes& size);
double WeightElements(const LoopSizes& size);  // outer x m x k

// Reads a weight, another tensor (fused attention: several), or is no GEMM.
enum class NestKind : uint8_t { kWeighted, kGemm, kElementwise };
NestKind KindOf(GraphOpKind kind);

struct LoopNest {
  // The first axis of a loop names it; further ones run within it. None: one iteration.
  std::array<absl::InlinedVector<AxisId, 2>, kLoops> axes;
  // Loops that stay whole on a chip: the one that a norm or a softmax goes along.
  std::array<bool, kLoops> whole = {};
  Loop streamed = Loop::kN;  // through a chip, in tiles; kCount: none
  Direction pass = Direction::kForward;
  bool reduced_elsewhere = false;
  // How often the FLOP of its loops (NestFlop): fused attention computes two GEMMs over them, a
  // scan many operations for each result.
  double times = 1;
};

// How a tensor of one chip's share gets to or from the others.
enum class Transfer : uint8_t {
  kAllToAll,
  kBroadcast,  // along the chip's row of a grid
};

class LoopGraph {
 public:
  // An operator reads a tensor's axis `made` as its own `read` (keys, which are the sequence of
  // their producer).
  struct Reading {
    OpId op = kNoOp, producer = kNoOp;
    AxisId made = -1, read = -1;
  };
  // From one repetition of the graph to the next.
  struct Carried {
    OpId from = kNoOp, to = kNoOp;
    AxisId made = -1, read = -1;  // as those of a Reading; -1: alike
  };
  struct Moved {
    OpId op = kNoOp;
    TensorId tensor = -1;
    Transfer transfer = Transfer::kAllToAll;
  };
  // In memory, besides what an operator's loops read and make: keys and values of earlier positions
  // (kKvCache), or what is moved.
  struct Beside {
    std::string name;
    TensorRole role = TensorRole::kKvCache;
    absl::InlinedVector<AxisId, 4> axes;
    std::optional<Transfer> transfer;
  };

  // Several axes may have one name: of other sizes, alike in what they index.
  AxisId AddAxis(std::string_view name, int64_t size);
  // Reads the results of `inputs`, which are there already, and a weight where its kind has one.
  // Its result, of outer, m and n, is a gradient of weights where `role` says so.
  OpId Add(std::string name, GraphOpKind kind, LoopNest nest, std::span<const OpId> inputs,
           TensorRole role = TensorRole::kActivation, std::span<const Beside> beside = {});
  void Read(Reading reading) { readings_.push_back(reading); }
  void Carry(Carried carried) { carried_.push_back(carried); }
  void MoveResult(OpId op, Transfer transfer);
  // Its partial sums are added to another operator's, which reduces them.
  void ReduceElsewhere(OpId op) { nests_[static_cast<size_t>(op)].reduced_elsewhere = true; }

  const OperatorGraph& graph() const { return graph_; }
  size_t size() const { return nests_.size(); }
  const LoopNest& nest(OpId op) const { return nests_[static_cast<size_t>(op)]; }
  const std::vector<Reading>& readings() const { return readings_; }
  const std::vector<Carried>& carried() const { return carried_; }
  const std::vector<Moved>& moved() const { return moved_; }

  LoopSizes SizesOf(OpId op) const;
  // What chips call the loop when they divide it; empty: they do not.
  std::string_view LabelOf(OpId op, Loop loop) const;
  // Producers of what it reads, in order; one that it reads twice comes twice.
  std::vector<OpId> Producers(OpId op) const;
  std::vector<Beside> BesideOf(OpId op) const;
  int64_t Elements(std::span<const AxisId> axes) const;

 private:
  OperatorGraph graph_;
  std::vector<std::shared_ptr<const std::string>> names_;  // of axes, which view them
  std::vector<LoopNest> nests_;
  std::vector<Reading> readings_;
  std::vector<Carried> carried_;
  std::vector<Moved> moved_;
};

// The operators of the forward pass alone, which come first.
LoopGraph ForwardPass(const LoopGraph& graph);

// A chip's share of an operator, for so many samples, as a call whose kernels kernel_work.h
// derives.
OperatorCall CallOf(const LoopGraph& graph, OpId op, const LoopSizes& size, int64_t samples);

// Of `nodes` with edges (from, to): every node after those that lead to it, of several the first by
// number. Nodes on or behind cycles are missing.
std::vector<int> TopologicalOrder(size_t nodes, std::span<const std::pair<int, int>> edges);

}  // namespace foretrace
