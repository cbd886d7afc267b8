#include "simulator/dataflow/sharding.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "simulator/base/check.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

// What a kernel's result is divided along; empty: every chip has all of it.
std::string OutputLayout(const Kernel& kernel, Sharding sharding) {
  const Loop axis = sharding.axis == Loop::kK ? sharding.scatter : sharding.axis;
  return axis == Loop::kCount ? "" : kernel.label_of(axis);
}

bool HasOutputAxis(const Kernel& kernel, const std::string& label) {
  return label == kernel.label_of(Loop::kOuter) || label == kernel.label_of(Loop::kM) ||
         label == kernel.label_of(Loop::kN);
}

// The layout that a consumer divided along `sharding` reads the tensor in, by its producer's
// labels.
std::string InputLayout(const Kernel& from, const Kernel& to, Sharding sharding,
                        const Tensor& tensor) {
  if (sharding.axis == Loop::kCount) return "";
  std::string label = to.label_of(sharding.axis);
  if (label == tensor.renamed.second && !tensor.renamed.second.empty()) {
    label = tensor.renamed.first;
  } else if (label == tensor.renamed.first) {
    return "";  // the consumer's axis of that name is not the tensor's
  }
  return HasOutputAxis(from, label) ? label : "";
}

RealNs ConvertTime(const std::string& have, const std::string& want, RealBytes bytes,
                   const TensorGroup& group) {
  if (have.empty() || have == want) return {};  // a chip takes its part of what it has
  if (!want.empty()) {
    return AllToAllTime(group.all_to_all, group.networks, group.samples * bytes) / group.samples;
  }
  // Gathered over the dimensions from the inside out: each multiplies what a chip holds.
  RealNs time;
  RealBytes held = group.samples * bytes;
  for (const NetworkDimension& d : group.networks) {
    held = static_cast<double>(d.size) * held;
    time += AllGatherTime(d, held);
  }
  return time / group.samples;
}

}  // namespace

std::string_view Name(Sharding sharding) {
  size_t name = static_cast<size_t>(sharding.axis);
  if (sharding.scatter == Loop::kN) name = 7;
  if (sharding.scatter == Loop::kM) name = 6;
  if (sharding.scatter == Loop::kOuter) name = 5;
  return kShardingNames.at(name);
}

Sharding ShardingOf(size_t name) {
  constexpr std::array<Loop, 3> kScattered = {Loop::kOuter, Loop::kM, Loop::kN};
  if (name > kLoops) return {Loop::kK, kScattered.at(name - kLoops - 1)};
  return static_cast<Loop>(name);
}

int64_t TensorGroup::size() const {
  int64_t n = 1;
  for (const NetworkDimension& d : networks) n *= d.size;
  return n;
}

bool TensorGroup::linear() const {
  return measured == nullptr &&
         std::all_of(networks.begin(), networks.end(),
                     [](const NetworkDimension& d) { return d.latency == SimTime(); });
}

RealNs AllReduceTime(const TensorGroup& group, RealBytes bytes) {
  RealNs time;
  bytes = group.samples * bytes;
  for (size_t i = 0; i < group.networks.size(); ++i) {
    const NetworkDimension& d = group.networks[i];
    std::optional<RealNs> measured;
    if (i == 0 && group.measured != nullptr && d.size > 1 && bytes > RealBytes())
      measured = group.measured->AllReduce(d.size, bytes);
    time += measured ? *measured : AllReduceTime(group.all_reduce, d, bytes);
    bytes = bytes / static_cast<double>(d.size);
  }
  return time / group.samples;
}

ShardedKernel ShardKernel(const Kernel& kernel, Sharding along, const TensorGroup& group,
                          RealBytes word_bytes) {
  const Loop sharding = along.axis;
  ShardedKernel s;
  s.size = kernel.size;
  const int64_t n = group.size();
  if (sharding != Loop::kCount) {
    int64_t& size = s.size[static_cast<size_t>(sharding)];
    size = CeilOf(size, n);
  }
  s.flop = kernel.flop(s.size);
  s.output_bytes = ResultElements(s.size) * word_bytes;
  if (kernel.has_weights()) s.weight_bytes = WeightElements(s.size) * word_bytes;
  // A chip holds what its share of the kernel reads.
  s.stored_bytes = kernel.stored_bytes;
  if (sharding != Loop::kCount && sharding != kernel.stored_lacks) {
    const auto share = static_cast<size_t>(sharding);
    s.stored_bytes = static_cast<double>(s.size[share]) / static_cast<double>(kernel.size[share]) *
                     s.stored_bytes;
  }
  const bool partial = sharding == Loop::kK && kernel.is_gemm();
  if (!partial || kernel.reduced_elsewhere) return s;
  s.reduce_bytes = s.output_bytes;
  s.reduce_time = AllReduceTime(group, s.output_bytes);
  if (along.scatter != Loop::kCount) {
    // An all-reduce is a reduce-scatter and a gather, which take alike.
    s.reduce_time = s.reduce_time / 2;
    const int64_t size = kernel.of(along.scatter);
    s.output_bytes =
        static_cast<double>(CeilOf(size, n)) / static_cast<double>(size) * s.output_bytes;
  }
  return s;
}

TensorLayout LayoutOf(const Workload& workload, const Tensor& tensor, Sharding from, Sharding to) {
  const Kernel& producer = workload.kernels[static_cast<size_t>(tensor.from)];
  const Kernel& consumer = workload.kernels[static_cast<size_t>(tensor.to)];
  return {OutputLayout(producer, from), InputLayout(producer, consumer, to, tensor)};
}

ShardedTensor ShardTensor(const Workload& workload, const Tensor& tensor, Sharding from,
                          Sharding to, RealBytes bytes, const TensorGroup& group) {
  const TensorLayout layout = LayoutOf(workload, tensor, from, to);
  return {tensor.from, tensor.to, bytes, ConvertTime(layout.made, layout.read, bytes, group),
          layout.read.empty()};
}

ShardedWorkload Shard(const Workload& workload, const Shardings& shardings,
                      const TensorGroup& group) {
  FORETRACE_CHECK(shardings.size() == workload.kernels.size());
  ShardedWorkload out;
  for (size_t i = 0; i < shardings.size(); ++i) {
    out.kernels.push_back(
        ShardKernel(workload.kernels[i], shardings[i], group, workload.word_bytes));
  }
  const auto shard = [&](const Tensor& t) {
    const auto a = static_cast<size_t>(t.from), b = static_cast<size_t>(t.to);
    return ShardTensor(workload, t, shardings[a], shardings[b], out.kernels[a].output_bytes, group);
  };
  std::set<std::tuple<int, Direction, std::string>> converted;  // of a producer, for a pass, into
  for (const Tensor& t : workload.tensors) {
    const auto a = static_cast<size_t>(t.from), b = static_cast<size_t>(t.to);
    ShardedTensor s = shard(t);
    if (s.convert_time > RealNs() && !group.published) {
      const std::string read = LayoutOf(workload, t, shardings[a], shardings[b]).read;
      if (!converted.emplace(t.from, workload.kernels[b].pass, read).second)
        s.convert_time = RealNs();
    }
    out.tensors.push_back(s);
  }
  if (group.published) return out;
  for (const Tensor& t : workload.next_layer) out.next_layer.push_back(shard(t));
  return out;
}

std::vector<Sharding> AllowedShardings(const Kernel& kernel, const TensorGroup& chips,
                                       bool divide_weights) {
  const int64_t group = chips.size();
  std::vector<Sharding> out;
  const auto divides = [&](size_t d) {
    return !kernel.label[d].empty() && kernel.size[d] >= group;
  };
  for (size_t d = 0; d < kLoops; ++d) {
    const auto dimension = static_cast<Loop>(d);
    if (!divides(d)) continue;
    // The rows of the input: each chip would hold all of the weight.
    if (divide_weights && kernel.has_weights() && dimension == Loop::kN) continue;
    out.emplace_back(dimension);
    // Gradients of weights stay where the weights are.
    const bool partial = dimension == Loop::kK && kernel.is_gemm();
    if (!partial || chips.published || kernel.reduced_elsewhere || kernel.weight_gradient) continue;
    for (const Loop to : {Loop::kOuter, Loop::kM, Loop::kN}) {
      if (divides(static_cast<size_t>(to))) out.emplace_back(dimension, to);
    }
  }
  if (group == 1) out.clear();
  if (out.empty() || !divide_weights || !kernel.has_weights()) out.emplace_back(Loop::kCount);
  return out;
}

Shardings ShardAlong(const Workload& workload, std::span<const std::string_view> labels) {
  Shardings out;
  for (const Kernel& k : workload.kernels) {
    Loop chosen = Loop::kCount;
    for (size_t d = kLoops; d-- > 0;) {
      const bool named = std::find(labels.begin(), labels.end(), k.label[d]) != labels.end();
      if (named && !k.label[d].empty()) chosen = static_cast<Loop>(d);
    }
    out.emplace_back(chosen);
  }
  return out;
}

}  // namespace foretrace::dataflow
