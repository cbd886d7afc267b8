#include "simulator/search/coarsen.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/search/graphpipe_plan.h"

namespace foretrace {
namespace {

struct Merge {
  int32_t op = 0, into = 0;
  bool first_of_class = false;  // those before have less work
};

// The order in which a graph shrinks to a single operator.
class Contraction {
 public:
  explicit Contraction(const GraphPipeProblem& p)
      : work_(p.ops.size()), in_(p.ops.size()), out_(p.ops.size()) {
    for (size_t i = 0; i < work_.size(); ++i) {
      // At the largest batch, where fixed overheads count least.
      work_[i] = (p.ops[i].forward.back() + p.ops[i].backward.back()).seconds();
      left_.emplace(work_[i], static_cast<int32_t>(i));
    }
    for (const GraphPipeEdge& e : p.edges) {
      At(out_, e.from)[e.to] += e.bytes.count();
      At(in_, e.to)[e.from] += e.bytes.count();
    }
  }

  std::vector<Merge> Run() {
    std::vector<Merge> merges;
    double largest = -1;
    while (left_.size() > 1) {
      bool merged = false;
      for (const auto& [work, op] : left_) {
        const int32_t into = Neighbour(op);
        if (into < 0) continue;
        merges.push_back({op, into, work > largest * (1 + 1e-9)});
        largest = std::max(largest, work);
        Apply(op, into);
        merged = true;
        break;
      }
      // Of an acyclic graph, the edge to the first successor in topological order can go.
      FORETRACE_CHECK(merged);
    }
    return merges;
  }

 private:
  using Neighbours = std::vector<std::map<int32_t, double>>;
  static std::map<int32_t, double>& At(Neighbours& all, int32_t op) {
    return all[static_cast<size_t>(op)];
  }

  // By bytes exchanged, then by number; -1: none without making a cycle.
  int32_t Neighbour(int32_t op) {
    std::vector<std::pair<double, int32_t>> candidates;
    for (const Neighbours* side : {&in_, &out_}) {
      for (const auto& [other, bytes] : (*side)[static_cast<size_t>(op)]) {
        candidates.emplace_back(-bytes, other);
      }
    }
    // Without neighbours it may go anywhere.
    if (candidates.empty()) {
      const auto other = std::find_if(left_.begin(), left_.end(),
                                      [&](const auto& entry) { return entry.second != op; });
      return other->second;
    }
    std::sort(candidates.begin(), candidates.end());
    for (const auto& [unused, other] : candidates) {
      const bool forward = At(out_, op).contains(other);
      if (!OtherPath(forward ? op : other, forward ? other : op)) return other;
    }
    return -1;
  }

  // A path beside the edge.
  bool OtherPath(int32_t from, int32_t to) {
    if (At(out_, from).size() == 1 || At(in_, to).size() == 1) return false;
    std::vector<char> seen(work_.size(), 0);
    std::vector<int32_t> stack;
    for (const auto& [v, unused] : At(out_, from)) {
      if (v != to) stack.push_back(v);
    }
    while (!stack.empty()) {
      const int32_t v = stack.back();
      stack.pop_back();
      if (v == to) return true;
      if (std::exchange(seen[static_cast<size_t>(v)], 1)) continue;
      for (const auto& [w, unused] : At(out_, v)) stack.push_back(w);
    }
    return false;
  }

  void Apply(int32_t op, int32_t into) {
    double& sum = work_[static_cast<size_t>(into)];
    left_.erase({work_[static_cast<size_t>(op)], op});
    left_.erase({sum, into});
    sum += work_[static_cast<size_t>(op)];
    left_.emplace(sum, into);
    for (auto [mine, theirs] : {std::pair{&in_, &out_}, std::pair{&out_, &in_}}) {
      for (const auto& [other, bytes] : At(*mine, op)) {
        At(*theirs, other).erase(op);
        if (other == into) continue;
        At(*mine, into)[other] += bytes;
        At(*theirs, other)[into] += bytes;
      }
      At(*mine, op).clear();
    }
  }

  std::vector<double> work_;                   // seconds
  Neighbours in_, out_;                        // bytes
  std::set<std::pair<double, int32_t>> left_;  // operators that stand for themselves, by work
};

CoarseProblem After(const GraphPipeProblem& p, const std::vector<Merge>& merges, size_t count) {
  std::vector<int32_t> group(p.ops.size());
  std::iota(group.begin(), group.end(), 0);
  // Backwards, so that where an operator went is known to stand for itself.
  for (size_t i = count; i-- > 0;) {
    group[static_cast<size_t>(merges[i].op)] = group[static_cast<size_t>(merges[i].into)];
  }
  return MergeGroups(p, group);
}

}  // namespace

namespace {

void AddTo(GraphPipeOp& sum, const GraphPipeOp& op) {
  for (size_t x = 0; x < op.forward.size(); ++x) {
    sum.forward[x] += op.forward[x];
    sum.backward[x] += op.backward[x];
  }
  const auto exchanges = [](GraphPipeOp::Exchanges& to, const GraphPipeOp::Exchanges& from) {
    to.times.resize(std::max(to.times.size(), from.times.size()));
    for (size_t x = 0; x < from.times.size(); ++x) to.times[x] += from.times[x];
    to.bytes += from.bytes;
    to.count += from.count;
  };
  exchanges(sum.forward_exchanges, op.forward_exchanges);
  exchanges(sum.backward_exchanges, op.backward_exchanges);
  sum.fixed_bytes += op.fixed_bytes;
  sum.gradient_bytes += op.gradient_bytes;
  sum.stash_bytes += op.stash_bytes;
  for (size_t i = 0; i < op.parts.size(); ++i) AddTo(sum.parts[i], op.parts[i]);
}

}  // namespace

CoarseProblem MergeGroups(const GraphPipeProblem& p, const std::vector<int32_t>& group) {
  CoarseProblem out;
  out.problem = p;
  out.problem.ops.clear();
  out.problem.edges.clear();
  std::map<int32_t, int32_t> index;
  for (size_t i = 0; i < group.size(); ++i) {
    const GraphPipeOp& op = p.ops[i];
    const auto [it, fresh] = index.emplace(group[i], static_cast<int32_t>(out.members.size()));
    if (fresh) {
      out.members.emplace_back();
      out.problem.ops.push_back(op);
    } else {
      AddTo(out.problem.ops[static_cast<size_t>(it->second)], op);
    }
    out.members[static_cast<size_t>(it->second)].push_back(static_cast<int32_t>(i));
  }
  std::map<std::pair<int32_t, int32_t>, RealBytes> edges;
  for (const GraphPipeEdge& e : p.edges) {
    const int32_t from = index.at(group[static_cast<size_t>(e.from)]);
    const int32_t to = index.at(group[static_cast<size_t>(e.to)]);
    if (from != to) edges[{from, to}] += e.bytes;
  }
  for (const auto& [ends, bytes] : edges) {
    out.problem.edges.push_back({ends.first, ends.second, bytes});
  }
  return out;
}

CoarseProblem Coarsen(const GraphPipeProblem& problem, size_t operators, size_t downsets) {
  const auto small = [&](const CoarseProblem& coarse) {
    if (coarse.members.size() > operators) return false;
    if (downsets == kAnyDownsets) return true;
    const auto graph = internal::GraphOf(coarse.problem);
    FORETRACE_CHECK(graph.ok());
    return DownsetLattice::Enumerate(*graph, downsets).ok();
  };
  CoarseProblem coarse = After(problem, {}, 0);
  if (small(coarse)) return coarse;
  const std::vector<Merge> merges = Contraction(problem).Run();
  std::vector<size_t> ends;  // of classes
  for (size_t i = 1; i < merges.size(); ++i) {
    if (merges[i].first_of_class) ends.push_back(i);
  }
  ends.push_back(merges.size());
  // Downsets of a contracted graph are downsets of the graph, so the fewest that are enough can be
  // bisected.
  size_t low = 0, high = ends.size() - 1;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (small(After(problem, merges, ends[middle]))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return After(problem, merges, ends[low]);
}

}  // namespace foretrace
