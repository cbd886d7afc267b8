#include "simulator/dataflow/workload.h"

#include <algorithm>
#include <numeric>

#include "simulator/base/error.h"

namespace foretrace::dataflow {

std::string_view Name(KernelKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"weighted_gemm", "gemm", "elementwise"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string_view Name(Dimension dimension) {
  constexpr std::array<std::string_view, kDimensions + 1> kNames = {"outer", "m", "k", "n", "none"};
  return kNames.at(static_cast<size_t>(dimension));
}

double Kernel::output_elements() const {
  return static_cast<double>(of(Dimension::kOuter)) * static_cast<double>(of(Dimension::kM)) *
         static_cast<double>(of(Dimension::kN));
}

double Kernel::flop() const {
  const double terms =
      kind == KernelKind::kElementwise ? 1 : 2 * static_cast<double>(of(Dimension::kK));
  return terms * output_elements();
}

double Kernel::weight_elements() const {
  if (!has_weights()) return 0;
  return static_cast<double>(of(Dimension::kOuter)) * static_cast<double>(of(Dimension::kM)) *
         static_cast<double>(of(Dimension::kK));
}

double Workload::flop() const {
  double sum = 0;
  for (const Kernel& k : kernels) sum += k.flop();
  return sum;
}

bool Workload::trains() const {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const Kernel& k) { return k.pass == Pass::kBackward; });
}

namespace {

// Kahn's order; kernels of cycles are missing.
std::vector<int> TopologicalOrder(const Workload& workload, std::vector<int>& level) {
  const size_t n = workload.kernels.size();
  std::vector<int> waiting(n, 0), order;
  level.assign(n, 0);
  for (const Tensor& t : workload.tensors) ++waiting[static_cast<size_t>(t.to)];
  for (size_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) order.push_back(static_cast<int>(i));
  }
  for (size_t next = 0; next < order.size(); ++next) {
    const int from = order[next];
    for (const Tensor& t : workload.tensors) {
      if (t.from != from) continue;
      const auto to = static_cast<size_t>(t.to);
      level[to] = std::max(level[to], level[static_cast<size_t>(from)] + 1);
      if (--waiting[to] == 0) order.push_back(t.to);
    }
  }
  return order;
}

}  // namespace

absl::Status Validate(const Workload& workload) {
  const size_t n = workload.kernels.size();
  if (n == 0) return InvalidInput("workload {}: it has no kernels", workload.name);
  if (n > 64) {
    return InvalidInput("workload {}: {} kernels; the exact solver takes up to 64; give one layer",
                        workload.name, n);
  }
  for (const Kernel& k : workload.kernels) {
    for (size_t d = 0; d < kDimensions; ++d) {
      if (k.size[d] < 1) {
        return InvalidInput("workload {}: kernel {}: size {} of axis {}; sizes are from 1",
                            workload.name, k.name, k.size[d], Name(static_cast<Dimension>(d)));
      }
    }
  }
  std::vector<Tensor> all = workload.tensors;
  all.insert(all.end(), workload.next_layer.begin(), workload.next_layer.end());
  for (const Tensor& t : all) {
    const auto is_kernel = [&](int i) { return i >= 0 && static_cast<size_t>(i) < n; };
    if (!is_kernel(t.from) || !is_kernel(t.to)) {
      return InvalidInput("workload {}: a tensor from kernel {} to {}, of {} kernels",
                          workload.name, t.from, t.to, n);
    }
  }
  std::vector<int> level;
  const std::vector<int> order = TopologicalOrder(workload, level);
  if (order.size() == n) return absl::OkStatus();
  std::vector<bool> ordered(n, false);
  for (const int i : order) ordered[static_cast<size_t>(i)] = true;
  std::string cycle;
  for (size_t i = 0; i < n; ++i) {
    if (!ordered[i]) cycle += (cycle.empty() ? "" : ", ") + workload.kernels[i].name;
  }
  return InvalidInput(
      "workload {}: a cycle within or before kernels {}; tensors must not lead back", workload.name,
      cycle);
}

std::vector<int> Levels(const Workload& workload) {
  std::vector<int> level;
  TopologicalOrder(workload, level);
  return level;
}

}  // namespace foretrace::dataflow
