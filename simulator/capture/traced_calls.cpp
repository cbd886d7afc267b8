#include "simulator/capture/traced_calls.h"

#include <cctype>

#include "simulator/base/dtype.h"

namespace foretrace::traced {
namespace {

constexpr std::string_view kEvaluate = "autograd::engine::evaluate_function: ";

bool IsAutograd(std::string_view name) {
  return name.starts_with(kEvaluate) || name.find("Backward") != std::string_view::npos;
}
bool IsOptimizer(std::string_view name) {
  return name.find("Optimizer.") != std::string_view::npos ||
         name.find("zero_grad") != std::string_view::npos;
}

}  // namespace

Calls::Calls(const TraceStore& store, const RankTrace& rank, int64_t iteration)
    : store_(store), rank_(rank) {
  int64_t steps = 0;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (name(n).find("Optimizer.step") != std::string_view::npos) ++steps;
    if (rank.kind(n) != NodeKind::kCpuOp) continue;
    const int64_t its = HasMarks(rank) ? rank.iteration_at(rank.start(n)) : steps;
    if (its == iteration) nodes_.push_back(n);
  }
  FindPasses();
  FindOperators();
}

void Calls::FindPasses() {
  pass_.assign(rank_.size(), Pass::kCount);
  std::vector<NodeIndex> open;
  for (const NodeIndex first : nodes_) {
    // Parents may come after their children in the file.
    Pass found = Pass::kForward;
    open.clear();
    for (NodeIndex n = first; n.valid(); n = rank_.parent(n)) {
      if (pass_[n.value] != Pass::kCount) {
        found = pass_[n.value];
        break;
      }
      open.push_back(n);
      const std::string_view text = name(n);
      if (IsOptimizer(text) || IsAutograd(text)) {
        found = IsOptimizer(text) ? Pass::kOptimizer : Pass::kBackward;
        break;
      }
    }
    for (const NodeIndex n : open) pass_[n.value] = found;
  }
}

void Calls::FindOperators() {
  chosen_.assign(rank_.size(), 0);
  index_.assign(rank_.size(), 0);
  std::vector<TensorShape> in, out;
  for (const NodeIndex n : nodes_) {
    if (pass(n) == Pass::kOptimizer) continue;
    in.clear();
    out.clear();
    for (const Tensor& t : rank_.tensors(n)) {
      (t.is_output ? out : in).push_back({rank_.dims(t), t.dtype});
    }
    if (in.empty()) continue;
    auto found = OperatorFromTrace(name(n), in, out);
    if (!found) continue;
    SetMask(rank_.attention_mask(n), *found);
    chosen_[n.value] = 1;
    index_[n.value] = static_cast<uint32_t>(operators_.size());
    operators_.push_back(*found);
  }
  // An outer call does nothing beyond what the calls inside do.
  for (const NodeIndex n : nodes_) {
    if (!chosen(n)) continue;
    for (NodeIndex p = rank_.parent(n); p.valid() && chosen_[p.value] != 2; p = rank_.parent(p)) {
      if (chosen_[p.value] == 1) chosen_[p.value] = 2;
    }
  }
  for (uint8_t& c : chosen_) c = c == 1;
}

bool Calls::nested(NodeIndex n) const {
  for (NodeIndex p = rank_.parent(n); p.valid(); p = rank_.parent(p)) {
    if (chosen(p)) return true;
  }
  return false;
}

NodeIndex Calls::AutogradNode(NodeIndex n) const {
  NodeIndex outermost;
  for (NodeIndex p = n; p.valid(); p = rank_.parent(p)) {
    if (IsAutograd(name(p))) outermost = p;
  }
  return outermost;
}

std::string BaseName(std::string_view name) {
  if (name.starts_with(kEvaluate)) name.remove_prefix(kEvaluate.size());
  if (const size_t colon = name.rfind("::"); colon != std::string_view::npos) {
    name.remove_prefix(colon + 2);
  }
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) {
    name.remove_suffix(1);
  }
  if (constexpr std::string_view kSuffix = "Backward"; name.ends_with(kSuffix)) {
    name.remove_suffix(kSuffix.size());
  }
  std::string base;
  for (const char c : name) {
    if (c != '_') base += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return base;
}

std::string FunctionOf(const std::string& base) {
  static constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
      {"mul", "multiply"}, {"sub", "subtract"}, {"div", "divide"}, {"clampmin", "relu"}};
  for (const auto& [from, to] : kSpellings) {
    if (base == from) return std::string(to);
  }
  return base;
}

int64_t Elements(const RankTrace& rank, const Tensor& tensor) {
  int64_t product = tensor.dims_count > 0 ? 1 : 0;
  for (const int64_t d : rank.dims(tensor)) product = SaturatingProduct({product, d});
  return product;
}

int64_t ByteCount(const RankTrace& rank, const Tensor& tensor) {
  return SaturatingProduct({Elements(rank, tensor), ElementSize(tensor.dtype)});
}

}  // namespace foretrace::traced
