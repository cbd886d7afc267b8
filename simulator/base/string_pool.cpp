#include "simulator/base/string_pool.h"

#include "simulator/base/check.h"

namespace foretrace {

StringId StringPool::Intern(std::string_view text) {
  // Looked up once: the key of a new entry is the copy that the pool keeps.
  const auto it = index_.lazy_emplace(text, [&](const auto& make) {
    const auto id = static_cast<uint32_t>(strings_.size());
    make(std::string_view(strings_.emplace_back(text)), id);
    bytes_ += text.size();
  });
  return StringId(it->second);
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
