#pragma once
// The series-parallel tree of a GraphPipe problem with equal parts united, and stage costs on it.

#include <cstdint>
#include <map>
#include <vector>

#include "simulator/search/graphpipe.h"
#include "simulator/search/series_parallel.h"

namespace foretrace::internal {

// Sums over a set of operators that would form one stage.
struct StageLoad {
  std::vector<RealSeconds> times;  // forward and backward, by log2 of samples per device
  RealBytes fixed_bytes, gradient_bytes, stash_bytes;
  RealBytes in_bytes, out_bytes;  // per sample, across its borders
  RealSeconds work;               // of a device, per sample at the best batch size
  RealBytes repeated_bytes;       // per sample, of what is recomputed, while it is worked on
};

// An operator, or branches in parallel given as how many of each kind of sequence.
struct Item {
  bool leaf = true;
  std::vector<std::pair<int32_t, int32_t>> branches;  // (sequence, count), ascending
  StageLoad load;
};

// Structurally equal sequences share one number, so that equal branches are solved once.
struct Sequence {
  std::vector<int32_t> items;
};

// A concrete occurrence of a sequence: per item its operators, or per branch kind its occurrences.
struct SequenceInstance;
struct ItemInstance {
  int32_t op = -1;
  std::vector<std::vector<SequenceInstance>> branches;
};
struct SequenceInstance {
  std::vector<ItemInstance> items;
};

class GraphPipeModel {
 public:
  // `linear`: operators in topological order instead of the tree.
  GraphPipeModel(const GraphPipeProblem& problem, const OpGraph& graph, bool linear);

  const Item& item(int32_t i) const { return items_[static_cast<size_t>(i)]; }
  const std::vector<int32_t>& sequence(int32_t s) const {
    return sequences_[static_cast<size_t>(s)];
  }
  int32_t root() const { return root_; }
  const SequenceInstance& instance() const { return instance_; }
  int32_t linearised() const { return linearised_; }
  // `sequence` with one more item at its end.
  int32_t Extended(int32_t sequence, int32_t item);

  // Loads of items [begin, end) of a sequence as one stage.
  StageLoad RangeLoad(int32_t sequence, size_t begin, size_t end) const;
  // Of whole branches together: counts by position in item.branches.
  StageLoad GroupLoad(const Item& item, const std::vector<int32_t>& counts) const;
  RealSeconds SequenceWork(int32_t sequence, size_t begin) const;

 private:
  int32_t AddSequence(std::vector<int32_t> items);
  int32_t AddItem(Item item);
  int32_t ReadSequence(const SeriesParallelNode& node, SequenceInstance& instance);
  int32_t ReadItem(const SeriesParallelNode& node, ItemInstance& instance);
  StageLoad LeafLoad(int32_t op) const;

  const GraphPipeProblem& problem_;
  std::vector<RealBytes> op_in_, op_out_;
  std::vector<Item> items_;
  std::vector<std::vector<int32_t>> sequences_;
  std::map<std::vector<int32_t>, int32_t> sequence_index_;
  std::map<std::vector<double>, int32_t> leaf_index_;
  std::map<std::vector<std::pair<int32_t, int32_t>>, int32_t> parallel_index_;
  SequenceInstance instance_;
  int32_t root_ = 0;
  bool linear_ = false;
  std::vector<int32_t> position_;  // of operators in the line; only where linear
  int32_t linearised_ = 0;
};

}  // namespace foretrace::internal
