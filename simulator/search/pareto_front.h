#pragma once

#include <cstddef>
#include <vector>

namespace foretrace {

// Of mappings with an `evaluation`, fastest first: which need less memory than all that are faster.
template <typename Judged>
std::vector<size_t> TimeMemoryFront(const std::vector<Judged>& fastest_first) {
  std::vector<size_t> front;
  for (size_t i = 0; i < fastest_first.size(); ++i) {
    if (front.empty() ||
        fastest_first[i].evaluation.memory < fastest_first[front.back()].evaluation.memory) {
      front.push_back(i);
    }
  }
  return front;
}

}  // namespace foretrace
