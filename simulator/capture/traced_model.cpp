#include "simulator/capture/traced_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/capture/traced_calls.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/workload/tensor_parallel.h"

namespace foretrace {
namespace {

using traced::Calls;
using traced::Pass;
using traced::StorageOf;

// Sums over the whole iteration; divided by samples at the end.
struct Call {
  NodeIndex node;
  double forward_flop = 0, backward_flop = 0;
  int64_t forward_bytes = 0, backward_bytes = 0;
  int64_t result_elements = 0, result_bytes = 0;
  int64_t parameters = 0, parameter_bytes = 0;
  bool matched = false;            // has a backward pass
  std::vector<std::string> names;  // its own and those of the calls around it, as base names
};

// An autograd node: its device work, and what its gradient looks like.
struct Gradient {
  NodeIndex node;
  std::string base;
  double flop = 0;
  int64_t bytes = 0;
  int64_t elements = 0;  // of its first argument; 0 unknown
  int32_t call = traced::kNoCall;
};

class ModelReader {
 public:
  ModelReader(const TraceStore& store, const RankTrace& rank, int64_t iteration)
      : rank_(rank), calls_(store, rank, iteration) {}

  absl::Status Read() {
    ReadForward();
    if (forward_.empty()) {
      return InvalidInput(
          "{}: no call has a known operator with shapes; record shapes "
          "(record_shapes=True), or give the execution trace too",
          rank_.info().source);
    }
    ReadBackward();
    Match();
    ReadParameters();
    return absl::OkStatus();
  }

  TracedModel Build(int64_t samples) const;

 private:
  void ReadForward();
  void AddCall(NodeIndex n);
  void ReadBackward();
  void Match();
  int32_t LastLookup() const;
  int64_t GradientElements(NodeIndex first_call, const std::string& base) const;
  void ReadParameters();
  void TakeParametersFromShapes();
  bool AccumulatesFirst(NodeIndex n) const;
  std::vector<bool> Needed() const;
  DType MainType() const;

  const RankTrace& rank_;
  Calls calls_;
  std::vector<Call> forward_;
  std::map<std::pair<int32_t, int32_t>, int64_t> edges_;  // to bytes
  bool identified_ = false;                               // tensors have identities
  std::vector<Gradient> backward_;
  absl::flat_hash_map<uint32_t, size_t> backward_index_;  // by autograd node
  // The gradient that last wrote a storage.
  absl::flat_hash_map<int64_t, size_t> gradient_of_;
  int64_t parameter_tensors_ = 0, unmatched_ = 0, unplaced_parameters_ = 0;
  bool from_shapes_ = false;  // parameters are
};

void ModelReader::AddCall(NodeIndex n) {
  Call call;
  call.node = n;
  const OperatorWork work = TotalWork(calls_.operation(n).op);
  call.forward_flop = work.flop.count();
  call.forward_bytes = work.bytes.count();
  for (const Tensor& t : rank_.tensors(n)) {
    if (!t.is_output) continue;
    if (call.result_elements == 0) call.result_elements = traced::Elements(rank_, t);
    call.result_bytes += traced::ByteCount(rank_, t);
  }
  for (NodeIndex p = n; p.valid(); p = rank_.parent(p)) {
    call.names.push_back(traced::BaseName(calls_.name(p)));
  }
  forward_.push_back(std::move(call));
}

void ModelReader::ReadForward() {
  // Who wrote a storage last.
  absl::flat_hash_map<int64_t, std::vector<int32_t>> writers;
  for (const NodeIndex n : calls_.nodes()) {
    if (calls_.pass(n) != Pass::kForward || calls_.nested(n)) continue;
    std::vector<int32_t> sources;
    std::set<int64_t> read;
    for (const Tensor& t : rank_.tensors(n)) {
      if (t.is_output || StorageOf(t) == 0) continue;
      identified_ = true;
      read.insert(StorageOf(t));
      const auto it = writers.find(StorageOf(t));
      if (it == writers.end()) continue;
      for (const int32_t from : it->second) {
        sources.push_back(from);
        if (calls_.chosen(n)) {
          int64_t& bytes = edges_[{from, static_cast<int32_t>(forward_.size())}];
          bytes = std::max(bytes, traced::ByteCount(rank_, t));
        }
      }
    }
    if (calls_.chosen(n)) {
      sources = {static_cast<int32_t>(forward_.size())};
      AddCall(n);
    }
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    for (const Tensor& t : rank_.tensors(n)) {
      // Views write nothing.
      if (!t.is_output || StorageOf(t) == 0) continue;
      if (calls_.chosen(n) || !read.contains(StorageOf(t))) writers[StorageOf(t)] = sources;
    }
  }
  if (identified_) return;
  for (size_t i = 1; i < forward_.size(); ++i) {
    edges_[{static_cast<int32_t>(i) - 1, static_cast<int32_t>(i)}] = forward_[i - 1].result_bytes;
  }
}

void ModelReader::ReadBackward() {
  for (const NodeIndex n : calls_.nodes()) {
    if (calls_.pass(n) != Pass::kBackward || !calls_.chosen(n)) continue;
    const NodeIndex node = calls_.AutogradNode(n);
    // Its sums belong to no forward call.
    if (traced::BaseName(calls_.name(node)) == traced::kAccumulateGrad) continue;
    const auto [it, fresh] = backward_index_.emplace(node.value, backward_.size());
    if (fresh) {
      Gradient g;
      g.node = node;
      g.base = traced::BaseName(calls_.name(node));
      g.elements = GradientElements(n, g.base);
      backward_.push_back(std::move(g));
    }
    Gradient& g = backward_[it->second];
    const OperatorWork work = TotalWork(calls_.operation(n).op);
    g.flop += work.flop.count();
    g.bytes += work.bytes.count();
    for (const Tensor& t : rank_.tensors(n)) {
      if (t.is_output && StorageOf(t) != 0) gradient_of_[StorageOf(t)] = it->second;
    }
  }
}

// Of the gradient that the autograd node around a call is given; where it has no tensors, of what
// its first call begins with, which most often is the gradient.
int64_t ModelReader::GradientElements(NodeIndex first_call, const std::string& base) const {
  for (NodeIndex p = rank_.parent(first_call); p.valid(); p = rank_.parent(p)) {
    const auto tensors = rank_.tensors(p);
    if (traced::BaseName(calls_.name(p)) == base && !tensors.empty() &&
        !tensors.front().is_output) {
      return traced::Elements(rank_, tensors.front());
    }
  }
  const auto tensors = rank_.tensors(first_call);
  return tensors.empty() || tensors.front().is_output ? 0
                                                      : traced::Elements(rank_, tensors.front());
}

void ModelReader::Match() {
  std::map<std::string, std::vector<size_t>, std::less<>> by_name;
  for (size_t i = 0; i < forward_.size(); ++i) {
    const std::set<std::string> names(forward_[i].names.begin(), forward_[i].names.end());
    for (const std::string& name : names) by_name[name].push_back(i);
  }
  size_t last = forward_.size();
  std::vector<size_t> orphans;
  for (size_t i = 0; i < backward_.size(); ++i) {
    Gradient& g = backward_[i];
    const auto it = by_name.find(g.base);
    if (it != by_name.end()) {
      const auto fits = [&](size_t f) {
        const Call& call = forward_[f];
        return !call.matched &&
               (g.elements == 0 || call.result_elements == 0 || g.elements == call.result_elements);
      };
      const auto found = std::find_if(it->second.rbegin(), it->second.rend(), fits);
      if (found != it->second.rend()) g.call = static_cast<int32_t>(*found);
    } else if (g.base.find("lookup") != std::string::npos) {
      g.call = LastLookup();
    }
    if (g.call != traced::kNoCall) {
      forward_[static_cast<size_t>(g.call)].matched = true;
      last = static_cast<size_t>(g.call);
    } else {
      ++unmatched_;
    }
    orphans.push_back(i);
    // Before any match, work waits for the first.
    if (last == forward_.size()) continue;
    for (const size_t o : orphans) {
      forward_[last].backward_flop += backward_[o].flop;
      forward_[last].backward_bytes += backward_[o].bytes;
    }
    orphans.clear();
  }
}

// Backward passes of fused lookups have names of their own.
int32_t ModelReader::LastLookup() const {
  for (size_t i = forward_.size(); i-- > 0;) {
    const auto& shape = calls_.operation(forward_[i].node).op.shape;
    if (!forward_[i].matched && std::holds_alternative<EmbeddingOp>(shape)) {
      return static_cast<int32_t>(i);
    }
  }
  return traced::kNoCall;
}

// The engine names such a node twice, one call around the other; the first with the gradient
// counts.
bool ModelReader::AccumulatesFirst(NodeIndex n) const {
  if (traced::BaseName(calls_.name(n)) != traced::kAccumulateGrad || rank_.tensors(n).empty()) {
    return false;
  }
  const NodeIndex around = rank_.parent(n);
  return !around.valid() || traced::BaseName(calls_.name(around)) != traced::kAccumulateGrad ||
         rank_.tensors(around).empty();
}

void ModelReader::ReadParameters() {
  int32_t previous = traced::kNoCall;
  for (const NodeIndex n : calls_.nodes()) {
    if (calls_.pass(n) != Pass::kBackward) continue;
    if (const auto it = backward_index_.find(calls_.AutogradNode(n).value);
        it != backward_index_.end() && backward_[it->second].call != traced::kNoCall) {
      previous = backward_[it->second].call;
    }
    if (!AccumulatesFirst(n)) continue;
    const Tensor& gradient = rank_.tensors(n).front();
    ++parameter_tensors_;
    int32_t owner = previous;
    if (const auto it = gradient_of_.find(StorageOf(gradient)); it != gradient_of_.end()) {
      owner = backward_[it->second].call != traced::kNoCall ? backward_[it->second].call : previous;
    }
    if (owner == traced::kNoCall) {
      unplaced_parameters_ += traced::Elements(rank_, gradient);
      continue;
    }
    forward_[static_cast<size_t>(owner)].parameters += traced::Elements(rank_, gradient);
    forward_[static_cast<size_t>(owner)].parameter_bytes += traced::ByteCount(rank_, gradient);
  }
  for (Call& call : forward_) {
    const auto* lookup = std::get_if<EmbeddingOp>(&calls_.operation(call.node).op.shape);
    if (lookup == nullptr || call.parameters > 0 || lookup->rows <= 0) continue;
    call.parameters = SaturatingProduct({lookup->rows, lookup->dim});
    parameter_tensors_ += std::max<int64_t>(lookup->tables, 1);
  }
  if (parameter_tensors_ == 0) TakeParametersFromShapes();
}

// Weights that the shapes of a call imply; biases are not told apart from results' broadcasts.
struct WeightsOf {
  int64_t operator()(const LinearOp& o) const { return SaturatingProduct({o.n, o.k}); }
  int64_t operator()(const Conv2dOp& o) const {
    return SaturatingProduct({o.k, o.c / std::max<int64_t>(o.groups, 1), o.r, o.s});
  }
  int64_t operator()(const LayerNormOp& o) const { return 2 * o.cols; }
  int64_t operator()(const BatchNormOp& o) const { return 2 * o.c; }
  int64_t operator()(const auto&) const { return 0; }
};

void ModelReader::TakeParametersFromShapes() {
  for (Call& call : forward_) {
    const OperatorCall& op = calls_.operation(call.node).op;
    const auto* rows = std::get_if<IndexOp>(&op.shape);
    const bool lookup =
        rows != nullptr && call.names.front().find("embedding") != std::string::npos;
    call.parameters = lookup ? rows->source_elements : std::visit(WeightsOf{}, op.shape);
    call.parameter_bytes = SaturatingProduct({call.parameters, ElementSize(op.dtype)});
  }
  from_shapes_ = true;
}

// What a backward pass depends on; all of a trace without one.
std::vector<bool> ModelReader::Needed() const {
  std::vector<bool> needed(forward_.size());
  bool any = false;
  for (size_t i = 0; i < forward_.size(); ++i) {
    needed[i] = forward_[i].matched;
    any = any || needed[i];
  }
  if (!any) return std::vector<bool>(forward_.size(), true);
  // Edges are in order of their beginnings, and go forward.
  for (auto it = edges_.rbegin(); it != edges_.rend(); ++it) {
    const auto& [from, to] = it->first;
    if (needed[static_cast<size_t>(to)]) needed[static_cast<size_t>(from)] = true;
  }
  return needed;
}

// The type of the calls that do most of the arithmetic.
DType ModelReader::MainType() const {
  std::map<DType, double> flop;
  for (const Call& call : forward_) flop[calls_.operation(call.node).op.dtype] += call.forward_flop;
  const auto most = std::max_element(
      flop.begin(), flop.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first == DType::kUnknown ? DType::kFloat32 : most->first;
}

TracedModel ModelReader::Build(int64_t samples) const {
  TracedModel out;
  Workload& w = out.workload;
  const std::vector<bool> needed = Needed();
  std::vector<int32_t> index(forward_.size(), traced::kNoCall);
  std::map<std::string, int, std::less<>> seen;
  const auto share = [&](int64_t bytes) { return Bytes(std::max<int64_t>(bytes, 0) / samples); };
  for (size_t i = 0; i < forward_.size(); ++i) {
    if (!needed[i]) continue;
    const Call& call = forward_[i];
    Operator op;
    const std::string name(calls_.name(call.node));
    const int count = ++seen[name];
    op.name = count == 1 ? name : fmt::format("{} #{}", name, count);
    op.parameters = op.active_parameters = call.parameters;
    op.forward_flop = Flop(call.forward_flop / static_cast<double>(samples));
    op.backward_flop = Flop(call.backward_flop / static_cast<double>(samples));
    op.forward_bytes = share(call.forward_bytes - call.parameter_bytes);
    op.backward_bytes = share(call.backward_bytes - 2 * call.parameter_bytes);
    op.output_bytes = share(call.result_bytes);
    if (call.matched) op.stash_tensor = op.output_bytes;
    op.calls = {calls_.operation(call.node).op};
    op.function = traced::FunctionOf(traced::BaseName(name));
    index[i] = static_cast<int32_t>(w.operators.size());
    w.operators.push_back(std::move(op));
  }
  for (const auto& [ends, bytes] : edges_) {
    const int32_t from = index[static_cast<size_t>(ends.first)];
    const int32_t to = index[static_cast<size_t>(ends.second)];
    if (from != traced::kNoCall && to != traced::kNoCall)
      w.edges.push_back({from, to, share(bytes)});
  }
  w.dtype = MainType();
  w.call_samples = samples;
  out.backward_calls = static_cast<int64_t>(backward_.size());
  out.unmatched_calls = unmatched_;
  out.parameter_tensors = parameter_tensors_;
  if (const auto assumed =
          std::count_if(forward_.begin(), forward_.end(),
                        [&](const Call& call) { return calls_.operation(call.node).assumed; });
      assumed > 0) {
    out.notes.push_back(
        fmt::format("{} calls do not record the size of their results, for which "
                    "usual values are taken; give the execution trace too",
                    assumed));
  }
  if (!identified_) {
    out.notes.emplace_back(
        "tensors have no identities in this trace: operators form a line; give the "
        "execution trace too");
  }
  if (backward_.empty()) out.notes.emplace_back("no backward pass was recorded");
  if (from_shapes_) {
    out.notes.emplace_back(
        "no gradients of parameters were recorded: parameters are the weights that shapes of "
        "products, convolutions, norms and lookups imply; give the execution trace too");
  }
  if (unplaced_parameters_ > 0) {
    out.notes.push_back(
        fmt::format("{} parameters belong to no operator of the graph", unplaced_parameters_));
  }
  return out;
}

}  // namespace

absl::StatusOr<TracedModel> ModelOfTrace(const TraceStore& store,
                                         const TracedModelOptions& options) {
  const RankTrace* rank = nullptr;
  for (const RankTrace& r : store.ranks()) {
    if (!options.rank || r.info().rank == *options.rank) {
      rank = &r;
      break;
    }
  }
  if (rank == nullptr) {
    return InvalidInput("--rank {}: the traces have no such rank", options.rank.value_or(0));
  }
  int64_t iteration = options.iteration.value_or(0);
  if (traced::HasMarks(*rank)) {
    const auto marks = rank->iterations();
    iteration = options.iteration.value_or(marks.front().number);
    if (std::none_of(marks.begin(), marks.end(),
                     [&](const IterationMark& m) { return m.number == iteration; })) {
      return InvalidInput("--iteration {}: rank {} has none of that number", iteration,
                          rank->info().rank);
    }
  }
  ModelReader reader(store, *rank, iteration);
  FORETRACE_RETURN_IF_ERROR(reader.Read());
  TracedModel model = reader.Build(options.samples);
  model.workload.name = fmt::format("traced {}", rank->info().producer);
  model.notes.insert(model.notes.begin(),
                     fmt::format("rank {}, iteration {}, {} sample{}", rank->info().rank, iteration,
                                 options.samples, options.samples == 1 ? "" : "s"));
  FORETRACE_RETURN_IF_ERROR(model.workload.Validate());
  FindTensorParallelism(model.workload, Kept::kResults);
  return model;
}

}  // namespace foretrace
