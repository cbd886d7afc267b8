#include "simulator/base/string_pool.h"

#include "simulator/base/check.h"

namespace foretrace {

StringId StringPool::Intern(std::string_view text) {
  if (auto it = index_.find(text); it != index_.end()) return StringId(it->second);
  const auto id = static_cast<uint32_t>(strings_.size());
  strings_.emplace_back(text);
  index_.emplace(strings_.back(), id);
  bytes_ += text.size();
  return StringId(id);
}

StringId StringPool::Find(std::string_view text) const {
  const auto it = index_.find(text);
  return it == index_.end() ? StringId() : StringId(it->second);
}

std::string_view StringPool::Get(StringId id) const {
  FORETRACE_CHECK(id.value < strings_.size());
  return strings_[id.value];
}

}  // namespace foretrace
