#include "simulator/capture/traced_model.h"

#include <algorithm>
#include <map>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/capture/model_reader.h"
#include "simulator/workload/tensor_parallel.h"

namespace foretrace {
namespace traced {

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

// What the model lacks because the recording does.
std::vector<std::string> ModelReader::Notes() const {
  std::vector<std::string> notes;
  if (const auto assumed =
          std::count_if(forward_.begin(), forward_.end(),
                        [&](const Call& call) { return calls_.operation(call.node).assumed; });
      assumed > 0) {
    notes.push_back(
        fmt::format("{} calls do not record the size of their results, for which "
                    "usual values are taken; give the execution trace too",
                    assumed));
  }
  if (!identified_) {
    notes.emplace_back(
        "tensors have no identities in this trace: operators form a line; give the "
        "execution trace too");
  }
  if (backward_.empty()) notes.emplace_back("no backward pass was recorded");
  if (from_shapes_) {
    notes.emplace_back(
        "no gradients of parameters were recorded: parameters are the weights that shapes of "
        "GEMMs, convolutions, norms and lookups imply; give the execution trace too");
  }
  if (unplaced_parameters_ > 0) {
    notes.push_back(
        fmt::format("{} parameters belong to no operator of the graph", unplaced_parameters_));
  }
  return notes;
}

TracedModel ModelReader::Build(int64_t samples) const {
  TracedModel out;
  Workload& w = out.workload;
  const std::vector<bool> needed = Needed();
  std::vector<int32_t> index(forward_.size(), kNoCall);
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
    op.function = FunctionOf(BaseName(name));
    index[i] = static_cast<int32_t>(w.operators.size());
    w.operators.push_back(std::move(op));
  }
  for (const auto& [ends, bytes] : edges_) {
    const int32_t from = index[static_cast<size_t>(ends.first)];
    const int32_t to = index[static_cast<size_t>(ends.second)];
    if (from != kNoCall && to != kNoCall) w.edges.push_back({from, to, share(bytes)});
  }
  w.dtype = MainType();
  w.call_samples = samples;
  out.backward_calls = static_cast<int64_t>(backward_.size());
  out.unmatched_calls = unmatched_;
  out.parameter_tensors = parameter_tensors_;
  out.notes = Notes();
  return out;
}

}  // namespace traced

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
  traced::ModelReader reader(store, *rank, iteration);
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
