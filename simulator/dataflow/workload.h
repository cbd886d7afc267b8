#pragma once
// What is mapped: an operator graph of loop nests, and solvers' view of it as DFModel has it (paper
// section III-B): a kernel for each operator; a tensor has one producer and one consumer, so that
// one with many consumers is many tensors.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/graph/loop_graph.h"

namespace foretrace::dataflow {

// Of attention's core, from the scores to the context: what a layer's own size is small beside
// (Korthikanti et al., 2022, section 5). kInner: its result is read within the core.
enum class AttentionPart : uint8_t { kNone, kInner, kResult };

// What solvers read of an operator, derived from the graph by MakeWorkload.
struct Kernel {
  std::string name;
  NestKind kind = NestKind::kElementwise;
  Direction pass = Direction::kForward;
  LoopSizes size = {1, 1, 1, 1};
  // What an axis is, across kernels ("hidden"); empty: it cannot be sharded.
  std::array<std::string, kLoops> label;
  // The axis that is streamed through the chip in tiles; kCount: none.
  Loop tiled = Loop::kN;
  // Its result is summed over replicas, once for all micro-batches of a pipeline.
  bool weight_gradient = false;
  // Its partial sums are added to another kernel's, which reduces them.
  bool reduced_elsewhere = false;
  double times = 1;  // the FLOP of its loops (LoopNest)
  AttentionPart attention = AttentionPart::kNone;
  RealBytes memory_bytes;  // read or written off chip besides tensors, by each chip
  // Of an operand that each sample has off chip already (keys and values of earlier tokens), on all
  // chips: divided as the kernel is, but along an axis that the operand lacks; read once.
  RealBytes stored_bytes;
  Loop stored_lacks = Loop::kCount;
  RealBytes alltoall_bytes;   // that each chip sends to all others
  RealBytes broadcast_bytes;  // that each chip passes on along its row of a grid

  int64_t of(Loop d) const { return size[static_cast<size_t>(d)]; }
  const std::string& label_of(Loop d) const { return label[static_cast<size_t>(d)]; }
  bool has_weights() const { return kind == NestKind::kWeighted; }
  bool is_gemm() const { return kind != NestKind::kElementwise; }
  // Of a share of it.
  Flop flop(const LoopSizes& share) const {
    return Flop(times * NestFlop(is_gemm(), share).count());
  }
};

// A tensor from one kernel to another. Where the consumer knows an axis by another label than the
// producer (keys, which are the sequence of queries' producer), `renamed` says which.
struct Tensor {
  int from = 0;
  int to = 0;
  std::pair<std::string, std::string> renamed;  // producer's, consumer's; empty: alike
};

struct Workload {
  std::string name;
  // What a micro-batch goes through after the last layer, on the last stage, forward and backward:
  // output layer and loss. Along the vocabulary, its kernels one by one. Null: nothing.
  std::shared_ptr<const Workload> head;
  LoopGraph graph;
  // Of `graph`, by operator (MakeWorkload).
  std::vector<Kernel> kernels;
  std::vector<Tensor> tensors;
  // From one repetition of the graph to the next: what leaves it enters in another layout.
  std::vector<Tensor> next_layer;
  RealBytes word_bytes{2};
  int64_t layers = 1;           // repetitions of the graph, one after another
  double batch = 1;             // samples; one pass of the graph takes a micro-batch of one
  RealBytes layer_input_bytes;  // passed from one pipeline stage to the next, per sample
  int64_t tiled_size = 1;       // of the axis that is tiled
  bool per_chip = false;        // sizes are one chip's share already: nothing is left to shard

  Flop flop() const;    // of one pass over the graph
  bool trains() const;  // has a backward pass
};
Workload MakeWorkload(std::string name, LoopGraph graph, RealBytes word_bytes = RealBytes(2));
// Makes it `layers` of a network over sequences of `hidden` values a position: whole sequences pass
// from layer to layer, and are tiled.
void StackLayers(int64_t layers, double batch, int64_t sequence, int64_t hidden,
                 Workload& workload);
// Without its backward kernels.
Workload ForwardOf(const Workload& workload);

// Errors name the kernel: none at all, sizes below one, more than 64 kernels.
absl::Status Validate(const Workload& workload);

// Length of the longest path to each kernel.
std::vector<int> Levels(const Workload& workload);

}  // namespace foretrace::dataflow
