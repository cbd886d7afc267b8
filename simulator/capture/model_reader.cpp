#include "simulator/capture/model_reader.h"

#include <algorithm>
#include <set>

#include "simulator/base/error.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace::traced {

absl::Status ModelReader::Read() {
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

void ModelReader::AddCall(NodeIndex n) {
  Call call;
  call.node = n;
  const OperatorWork work = TotalWork(calls_.operation(n).op);
  call.forward_flop = work.flop.count();
  call.forward_bytes = work.bytes.count();
  for (const Tensor& t : rank_.tensors(n)) {
    if (!t.is_output) continue;
    if (call.result_elements == 0) call.result_elements = Elements(rank_, t);
    call.result_bytes += ByteCount(rank_, t);
  }
  for (NodeIndex p = n; p.valid(); p = rank_.parent(p)) {
    call.names.push_back(BaseName(calls_.name(p)));
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
          bytes = std::max(bytes, ByteCount(rank_, t));
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
    if (BaseName(calls_.name(node)) == kAccumulateGrad) continue;
    const auto [it, fresh] = backward_index_.emplace(node.value, backward_.size());
    if (fresh) {
      Gradient g;
      g.node = node;
      g.base = BaseName(calls_.name(node));
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
    if (BaseName(calls_.name(p)) == base && !tensors.empty() && !tensors.front().is_output) {
      return Elements(rank_, tensors.front());
    }
  }
  const auto tensors = rank_.tensors(first_call);
  return tensors.empty() || tensors.front().is_output ? 0 : Elements(rank_, tensors.front());
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
    if (g.call != kNoCall) {
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
  return kNoCall;
}

// The engine names such a node twice, one call around the other; the first with the gradient
// counts.
bool ModelReader::AccumulatesFirst(NodeIndex n) const {
  if (BaseName(calls_.name(n)) != kAccumulateGrad || rank_.tensors(n).empty()) {
    return false;
  }
  const NodeIndex around = rank_.parent(n);
  return !around.valid() || BaseName(calls_.name(around)) != kAccumulateGrad ||
         rank_.tensors(around).empty();
}

void ModelReader::ReadParameters() {
  int32_t previous = kNoCall;
  for (const NodeIndex n : calls_.nodes()) {
    if (calls_.pass(n) != Pass::kBackward) continue;
    if (const auto it = backward_index_.find(calls_.AutogradNode(n).value);
        it != backward_index_.end() && backward_[it->second].call != kNoCall) {
      previous = backward_[it->second].call;
    }
    if (!AccumulatesFirst(n)) continue;
    const Tensor& gradient = rank_.tensors(n).front();
    ++parameter_tensors_;
    int32_t owner = previous;
    if (const auto it = gradient_of_.find(StorageOf(gradient)); it != gradient_of_.end()) {
      owner = backward_[it->second].call != kNoCall ? backward_[it->second].call : previous;
    }
    if (owner == kNoCall) {
      unplaced_parameters_ += Elements(rank_, gradient);
      continue;
    }
    forward_[static_cast<size_t>(owner)].parameters += Elements(rank_, gradient);
    forward_[static_cast<size_t>(owner)].parameter_bytes += ByteCount(rank_, gradient);
  }
  for (Call& call : forward_) {
    const auto* lookup = std::get_if<EmbeddingOp>(&calls_.operation(call.node).op.shape);
    if (lookup == nullptr || call.parameters > 0 || lookup->rows <= 0) continue;
    call.parameters = SaturatingProduct({lookup->rows, lookup->dim});
    parameter_tensors_ += std::max<int64_t>(lookup->tables, 1);
  }
  if (parameter_tensors_ == 0) TakeParametersFromShapes();
}

namespace {

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

}  // namespace

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

}  // namespace foretrace::traced
