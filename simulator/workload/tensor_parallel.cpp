#include "simulator/workload/tensor_parallel.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

namespace foretrace {
namespace {

enum class Role : uint8_t {
  kGemm,     // of weights: divides what it makes, or ends a division
  kCarrier,  // works on each part alone
  kWhole,    // needs all of its arguments
};

// How an operator may take part. `ways`: of what it divides as a carrier; 0: anything.
struct Part {
  Role role = Role::kWhole;
  int64_t ways = 0;
  int64_t columns = 0, rows = 0;  // of a GEMM's weights
  bool heads = false;             // makes divisions by head of ones by column
  bool within_heads = false;      // can be divided by head alone
};

// Of a call on `samples`.
struct PartOf {
  int64_t samples;

  Part operator()(const LinearOp& o) const { return {Role::kGemm, 0, o.n, o.k}; }
  Part operator()(const Conv2dOp& o) const {
    if (o.groups <= 1) return {Role::kGemm, 0, o.k, o.c};
    return {Role::kCarrier, o.groups};
  }
  Part operator()(const BatchedMatmulOp& o) const {
    return o.b % samples == 0 ? Part{Role::kCarrier, o.b / samples, 0, 0, true} : Part{};
  }
  Part operator()(const AttentionOp& o) const {
    return {Role::kCarrier, std::gcd(o.heads, o.kv_heads), 0, 0, true};
  }
  Part operator()(const SoftmaxOp&) const { return {Role::kCarrier, 0, 0, 0, false, true}; }
  Part operator()(const BatchNormOp& o) const { return {Role::kCarrier, o.c}; }
  Part operator()(const ElementwiseOp&) const { return {Role::kCarrier}; }
  Part operator()(const DropoutOp&) const { return {Role::kCarrier}; }
  Part operator()(const CopyOp&) const { return {Role::kCarrier}; }
  Part operator()(const ConcatOp&) const { return {Role::kCarrier}; }
  Part operator()(const PoolOp&) const { return {Role::kCarrier}; }
  Part operator()(const auto&) const { return {}; }
};

// Operators whose results are divided together, or not at all.
class Regions {
 public:
  explicit Regions(const Workload& w) : w_(w), parent_(w.operators.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Operator& op : w.operators) {
      const bool known = op.calls.size() == 1 && op.tensor_ways == 1;
      parts_.push_back(known ? std::visit(PartOf{w.call_samples}, op.calls.front().shape) : Part());
    }
    fed_.resize(parent_.size());
    for (const OperatorEdge& e : w.edges) {
      fed_[static_cast<size_t>(e.to)] = true;
      if (part(e.to).role == Role::kCarrier && !IsConstant(e)) Join(e.from, e.to);
    }
    Collect();
  }

  // A copy of what nothing in the graph makes: weights in another type.
  bool IsWeight(int32_t op) const {
    const Operator& o = w_.operators[static_cast<size_t>(op)];
    return !fed_[static_cast<size_t>(op)] && o.calls.size() == 1 &&
           std::holds_alternative<CopyOp>(o.calls.front().shape);
  }

  const Part& part(int32_t op) const { return parts_[static_cast<size_t>(op)]; }
  // The widest division of the region that an operator's result belongs to; 1: none.
  int64_t WaysOf(int32_t op) {
    const Region& r = regions_[static_cast<size_t>(Find(op))];
    return !r.possible || (r.within_heads && !r.heads) || r.ways == 0 ? 1 : r.ways;
  }
  bool Same(int32_t a, int32_t b) { return Find(a) == Find(b); }
  int32_t Find(int32_t op) {
    while (parent_[static_cast<size_t>(op)] != op) {
      int32_t& up = parent_[static_cast<size_t>(op)];
      up = parent_[static_cast<size_t>(up)];
      op = up;
    }
    return op;
  }

 private:
  struct Region {
    bool possible = true;
    bool heads = false, within_heads = false;
    int64_t ways = 0;
  };

  // A mask or the like: smaller than what is made with it, and without a gradient. Every device has
  // all of it.
  bool IsConstant(const OperatorEdge& e) const {
    const Operator& from = w_.operators[static_cast<size_t>(e.from)];
    return e.bytes < w_.operators[static_cast<size_t>(e.to)].output_bytes &&
           from.backward_flop == Flop() && from.parameters == 0;
  }

  void Join(int32_t a, int32_t b) {
    a = Find(a);
    b = Find(b);
    parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }

  void Collect() {
    regions_.resize(parent_.size());
    std::vector<bool> read(parent_.size());
    for (const OperatorEdge& e : w_.edges) {
      read[static_cast<size_t>(e.from)] = true;
      Region& r = regions_[static_cast<size_t>(Find(e.from))];
      const Part& reader = part(e.to);
      if (reader.role == Role::kGemm) r.ways = std::gcd(r.ways, reader.rows);
      if (reader.role == Role::kWhole) r.possible = false;
      // Divided while its own arguments are whole.
      if (reader.role == Role::kCarrier && !Same(e.from, e.to)) r.possible = false;
    }
    for (int32_t op = 0; op < std::ssize(parent_); ++op) {
      const Part& p = part(op);
      Region& r = regions_[static_cast<size_t>(Find(op))];
      const auto i = static_cast<size_t>(op);
      // What nobody reads is the model's result, and what a carrier reads first its input.
      if (p.role == Role::kWhole || !read[i] || (p.role == Role::kCarrier && !fed_[i])) {
        r.possible = false;
      }
      r.ways = std::gcd(r.ways, p.role == Role::kGemm ? p.columns : p.ways);
      r.heads = r.heads || p.heads;
      r.within_heads = r.within_heads || p.within_heads;
    }
  }

  const Workload& w_;
  std::vector<Part> parts_;
  std::vector<int32_t> parent_;
  std::vector<bool> fed_;        // by operator
  std::vector<Region> regions_;  // by the operator that stands for it
};

// Divides what a call computes among `by` devices, rounded up.
struct Divider {
  int64_t by;
  bool rows;  // of a GEMM what it sums over, not what it makes

  void Cut(std::initializer_list<int64_t*> sizes) const {
    for (int64_t* n : sizes) *n = (*n + by - 1) / by;
  }
  void operator()(LinearOp& o) const { Cut({rows ? &o.k : &o.n}); }
  void operator()(Conv2dOp& o) const {
    if (o.groups > 1) return Cut({&o.c, &o.k, &o.groups});
    Cut({rows ? &o.c : &o.k});
  }
  void operator()(BatchedMatmulOp& o) const { Cut({&o.b}); }
  void operator()(AttentionOp& o) const { Cut({&o.heads, &o.kv_heads}); }
  void operator()(SoftmaxOp& o) const { Cut({&o.rows}); }
  void operator()(BatchNormOp& o) const { Cut({&o.c}); }
  void operator()(ElementwiseOp& o) const { Cut({&o.elements, &o.read_elements}); }
  void operator()(DropoutOp& o) const { Cut({&o.elements}); }
  void operator()(CopyOp& o) const { Cut({&o.elements}); }
  void operator()(ConcatOp& o) const { Cut({&o.elements}); }
  void operator()(PoolOp& o) const { Cut({&o.input_elements, &o.output_elements}); }
  void operator()(auto&) const {}
};

}  // namespace

void FindTensorParallelism(Workload& workload, Kept kept) {
  Regions regions(workload);
  const auto count = static_cast<int32_t>(workload.operators.size());
  std::vector<std::vector<int32_t>> inputs(workload.operators.size());
  for (const OperatorEdge& e : workload.edges) {
    inputs[static_cast<size_t>(e.to)].push_back(e.from);
  }
  std::vector<int64_t> taken(workload.operators.size(), 1);  // by the region's operator
  const auto ways = [&](int32_t op) { return taken[static_cast<size_t>(regions.Find(op))]; };
  const auto of_divided = [&](int32_t op) {
    return std::ranges::any_of(inputs[static_cast<size_t>(op)],
                               [&](int32_t from) { return ways(from) > 1; });
  };
  // In order, and a region once all of its GEMMs are known to have whole arguments.
  std::vector<std::vector<int32_t>> gemms(workload.operators.size());
  std::vector<int32_t> order;
  for (int32_t op = 0; op < count; ++op) {
    if (regions.part(op).role != Role::kGemm) continue;
    auto& of_region = gemms[static_cast<size_t>(regions.Find(op))];
    if (of_region.empty()) order.push_back(regions.Find(op));
    of_region.push_back(op);
  }
  for (const int32_t region : order) {
    const auto& makers = gemms[static_cast<size_t>(region)];
    if (std::ranges::none_of(makers, of_divided)) {
      taken[static_cast<size_t>(region)] = regions.WaysOf(region);
    }
  }
  std::vector<char> summed(workload.operators.size());  // the gradient of this result is
  for (int32_t op = 0; op < count; ++op) {
    Operator& o = workload.operators[static_cast<size_t>(op)];
    const Role role = regions.part(op).role;
    if (role == Role::kWhole) continue;
    const bool rows = role == Role::kGemm && of_divided(op);
    int64_t divided = rows ? 1 : ways(op);
    for (const int32_t from : inputs[static_cast<size_t>(op)]) {
      if (rows) divided = std::max(divided, ways(from));
    }
    if (divided == 1) continue;
    o.tensor_ways = divided;
    if (role != Role::kGemm) continue;
    o.reduces_output = rows;
    for (const int32_t from : inputs[static_cast<size_t>(op)]) {
      if (regions.IsWeight(from)) {
        workload.operators[static_cast<size_t>(from)].tensor_ways = divided;
      } else if (!rows && std::exchange(summed[static_cast<size_t>(from)], 1) == 0) {
        o.reduces_gradient = true;
      }
    }
    if ((kept == Kept::kResults) == rows) o.stash_sequence += std::exchange(o.stash_tensor, {});
  }
}

std::vector<OperatorCall> DividedCalls(const Operator& op, int32_t width) {
  std::vector<OperatorCall> calls = op.calls;
  for (OperatorCall& call : calls) {
    // Of several GEMMs the last ends the division.
    std::visit(Divider{width, op.reduces_output && &call == &calls.back()}, call.shape);
  }
  return calls;
}

}  // namespace foretrace
