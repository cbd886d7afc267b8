#include "simulator/search/graphpipe_model.h"

#include <algorithm>
#include <utility>

namespace foretrace::internal {
namespace {

void Add(StageLoad& sum, const StageLoad& load) {
  sum.times.resize(std::max(sum.times.size(), load.times.size()));
  for (size_t i = 0; i < load.times.size(); ++i) sum.times[i] += load.times[i];
  sum.fixed_bytes += load.fixed_bytes;
  sum.gradient_bytes += load.gradient_bytes;
  sum.stash_bytes += load.stash_bytes;
  sum.work += load.work;
}

}  // namespace

GraphPipeModel::GraphPipeModel(const GraphPipeProblem& problem, const OpGraph& graph, bool linear)
    : problem_(problem), op_in_(problem.ops.size()), op_out_(problem.ops.size()) {
  for (const GraphPipeEdge& e : problem.edges) {
    op_out_[static_cast<size_t>(e.from)] += e.bytes;
    op_in_[static_cast<size_t>(e.to)] += e.bytes;
  }
  SeriesParallelTree tree;
  if (linear) {
    linear_ = true;
    position_.resize(problem.ops.size());
    for (size_t i = 0; i < position_.size(); ++i) {
      position_[static_cast<size_t>(graph.topological_order()[i])] = static_cast<int32_t>(i);
    }
    tree.root.kind = SeriesParallelNode::Kind::kSeries;
    for (const int32_t v : graph.topological_order()) {
      tree.root.children.push_back({SeriesParallelNode::Kind::kOperator, v, {}});
    }
  } else {
    tree = DecomposeSeriesParallel(graph);
  }
  linearised_ = tree.linearised;
  root_ = ReadSequence(tree.root, instance_);
}

StageLoad GraphPipeModel::LeafLoad(int32_t op) const {
  const GraphPipeOp& o = problem_.ops[static_cast<size_t>(op)];
  StageLoad load;
  load.work = RealSeconds::Infinite();
  for (size_t i = 0; i < o.forward.size(); ++i) {
    load.times.push_back(o.forward[i] + o.backward[i]);
    load.work = std::min(load.work, load.times[i] / static_cast<double>(int64_t{1} << i));
  }
  load.fixed_bytes = o.fixed_bytes;
  load.gradient_bytes = o.gradient_bytes;
  load.stash_bytes = o.stash_bytes;
  load.in_bytes = op_in_[static_cast<size_t>(op)];
  load.out_bytes = op_out_[static_cast<size_t>(op)];
  return load;
}

int32_t GraphPipeModel::AddItem(Item item) {
  items_.push_back(std::move(item));
  return static_cast<int32_t>(items_.size()) - 1;
}

int32_t GraphPipeModel::AddSequence(std::vector<int32_t> items) {
  const auto [it, fresh] = sequence_index_.emplace(items, static_cast<int32_t>(sequences_.size()));
  if (fresh) sequences_.push_back(std::move(items));
  return it->second;
}

int32_t GraphPipeModel::Extended(int32_t sequence, int32_t item) {
  std::vector<int32_t> items = sequences_[static_cast<size_t>(sequence)];
  items.push_back(item);
  return AddSequence(std::move(items));
}

int32_t GraphPipeModel::ReadItem(const SeriesParallelNode& node, ItemInstance& instance) {
  if (node.kind == SeriesParallelNode::Kind::kOperator) {
    instance.op = node.op;
    Item item;
    item.load = LeafLoad(node.op);
    std::vector<double> key;
    const auto add = [&key](const std::vector<RealSeconds>& times) {
      for (const RealSeconds t : times) key.push_back(t.seconds());
    };
    add(problem_.ops[static_cast<size_t>(node.op)].forward);
    add(item.load.times);
    for (const RealBytes x : {item.load.fixed_bytes, item.load.gradient_bytes,
                              item.load.stash_bytes, item.load.in_bytes, item.load.out_bytes}) {
      key.push_back(x.count());
    }
    const auto found = leaf_index_.find(key);
    if (found != leaf_index_.end()) return found->second;
    return leaf_index_[key] = AddItem(std::move(item));
  }
  std::map<int32_t, std::vector<SequenceInstance>> kinds;
  for (const SeriesParallelNode& child : node.children) {
    SequenceInstance branch;
    const int32_t kind = ReadSequence(child, branch);
    kinds[kind].push_back(std::move(branch));
  }
  Item item;
  item.leaf = false;
  std::vector<int32_t> counts;
  for (auto& [kind, list] : kinds) {
    counts.push_back(static_cast<int32_t>(list.size()));
    item.branches.emplace_back(kind, counts.back());
    instance.branches.push_back(std::move(list));
  }
  item.load = GroupLoad(item, counts);
  const auto found = parallel_index_.find(item.branches);
  if (found != parallel_index_.end()) return found->second;
  auto key = item.branches;
  return parallel_index_[std::move(key)] = AddItem(std::move(item));
}

int32_t GraphPipeModel::ReadSequence(const SeriesParallelNode& node, SequenceInstance& instance) {
  std::vector<int32_t> items;
  if (node.kind == SeriesParallelNode::Kind::kSeries) {
    for (const SeriesParallelNode& child : node.children) {
      instance.items.emplace_back();
      items.push_back(ReadItem(child, instance.items.back()));
    }
  } else {
    instance.items.emplace_back();
    items.push_back(ReadItem(node, instance.items.back()));
  }
  return AddSequence(std::move(items));
}

StageLoad GraphPipeModel::RangeLoad(int32_t sequence, size_t begin, size_t end) const {
  const auto& items = sequences_[static_cast<size_t>(sequence)];
  StageLoad load;
  for (size_t i = begin; i < end; ++i) Add(load, item(items[i]).load);
  if (linear_) {
    // Branches laid in a line feed operators far behind them.
    const auto inside = [&](int32_t op) {
      const auto at = static_cast<size_t>(position_[static_cast<size_t>(op)]);
      return begin <= at && at < end;
    };
    for (const GraphPipeEdge& e : problem_.edges) {
      if (!inside(e.from) && inside(e.to)) load.in_bytes += e.bytes;
      if (inside(e.from) && !inside(e.to)) load.out_bytes += e.bytes;
    }
    return load;
  }
  load.in_bytes = item(items[begin]).load.in_bytes;
  load.out_bytes = item(items[end - 1]).load.out_bytes;
  return load;
}

StageLoad GraphPipeModel::GroupLoad(const Item& item, const std::vector<int32_t>& counts) const {
  StageLoad load;
  for (size_t b = 0; b < item.branches.size(); ++b) {
    const int32_t sequence = item.branches[b].first;
    const StageLoad one = RangeLoad(sequence, 0, sequences_[static_cast<size_t>(sequence)].size());
    for (int32_t i = 0; i < counts[b]; ++i) {
      Add(load, one);
      load.in_bytes += one.in_bytes;
      load.out_bytes += one.out_bytes;
    }
  }
  return load;
}

RealSeconds GraphPipeModel::SequenceWork(int32_t sequence, size_t begin) const {
  RealSeconds work;
  const auto& items = sequences_[static_cast<size_t>(sequence)];
  for (size_t i = begin; i < items.size(); ++i) work += item(items[i]).load.work;
  return work;
}

}  // namespace foretrace::internal
