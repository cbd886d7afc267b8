#pragma once
// Ranks as a mesh: frameworks number them along the axes of their parallelism, so that groups of
// one axis are lines, all of one length and at one distance.

#include <cstddef>
#include <vector>

namespace foretrace {

// Line i of a mesh of n ranks: ranks at distance `stride`, `size` of them.
struct MeshAxis {
  size_t stride = 1;
  size_t size = 1;

  size_t LineOf(size_t rank) const { return rank / (stride * size) * stride + rank % stride; }
  size_t PlaceOf(size_t rank) const { return rank / stride % size; }
  // Next to each other on one line; its last is next to its first, as in a ring or where the last
  // stage of an interleaved pipeline hands on to the first.
  bool AreNeighbours(size_t a, size_t b) const {
    if (LineOf(a) != LineOf(b)) return false;
    const size_t ahead = (PlaceOf(a) + size - PlaceOf(b)) % size;
    return ahead == 1 || ahead == size - 1;
  }
};

// All axes of more than one rank that divide n ranks into lines, the shortest first; none of more
// ranks than any job has.
inline std::vector<MeshAxis> MeshAxes(size_t n) {
  std::vector<MeshAxis> axes;
  if (n > size_t{1} << 16) return axes;
  for (size_t size = 2; size <= n; ++size) {
    for (size_t stride = 1; n % size == 0 && stride * size <= n; ++stride) {
      if (n % (stride * size) == 0) axes.push_back({stride, size});
    }
  }
  return axes;
}

}  // namespace foretrace
