#include "simulator/backends/operator_view.h"

#include <algorithm>
#include <utility>

namespace foretrace {

OperatorView::OperatorView(std::string name, std::vector<ViewedOp> ops)
    : name_(std::move(name)), ops_(std::move(ops)), consumers_(ops_.size()) {
  for (int32_t id = 0; id < size(); ++id) {
    for (const int32_t input : op(id).inputs) {
      if (input == kNoProducer) continue;
      std::vector<int32_t>& of_input = consumers_[static_cast<size_t>(input)];
      if (of_input.empty() || of_input.back() != id) of_input.push_back(id);
    }
  }
}

int32_t OperatorView::Find(const std::string& name) const {
  const auto found = std::ranges::find(ops_, name, &ViewedOp::name);
  return found == ops_.end() ? -1 : static_cast<int32_t>(found - ops_.begin());
}

}  // namespace foretrace
