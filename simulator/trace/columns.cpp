#include "simulator/trace/columns.h"

namespace foretrace {

IdColumn::IdColumn(std::vector<uint64_t> ids) {
  if (ids.empty()) return;
  first_ = ids.front();
  bool in_a_row = true;
  for (size_t i = 0; i < ids.size() && in_a_row; ++i) in_a_row = ids[i] == first_ + i;
  if (in_a_row) return;
  const auto [least, greatest] = std::minmax_element(ids.begin(), ids.end());
  if (*greatest - *least > UINT32_MAX) {
    ids.shrink_to_fit();
    wide_ = std::move(ids);
    return;
  }
  first_ = *least;
  offsets_.reserve(ids.size());
  for (const uint64_t id : ids) offsets_.push_back(static_cast<uint32_t>(id - first_));
}

void DependencyColumn::Add(uint32_t consumer, const Dependency& dependency) {
  const auto at = static_cast<uint32_t>(producers_.size());
  if (begin_.size() <= consumer) begin_.resize(consumer + 1, at);
  if (dependency.kind != DependencyKind::kData && kinds_.empty()) {
    kinds_.reserve(producers_.capacity());
    kinds_.resize(at, DependencyKind::kData);
    kinds_.push_back(dependency.kind);
  } else if (!kinds_.empty()) {
    kinds_.push_back(dependency.kind);
  }
  producers_.push_back(dependency.producer.value);
}

}  // namespace foretrace
