#include "simulator/report/timeline_size.h"

#include "simulator/base/error.h"

namespace foretrace {
namespace {

// A node as predicted and as recorded, with its arrows: 240 to 400 bytes on five public jobs, and
// an eighth of that compressed (`predict --timeline`, size of the file over nodes of `inspect
// --json`).
constexpr uint64_t kBytesOfNode = 320;
constexpr uint64_t kCompression = 8;
constexpr uint64_t kMostBytes = 500'000'000;

}  // namespace

absl::Status CheckTimelineSize(uint64_t nodes, std::string_view path) {
  const bool compressed = path.ends_with(".gz");
  const uint64_t bytes = nodes * kBytesOfNode / (compressed ? kCompression : 1);
  if (bytes <= kMostBytes) return absl::OkStatus();
  return Infeasible(
      "{}: the timeline would take about {} MB, more than viewers open; {}--timeline DIR/ writes a "
      "file a rank, --timeline-ranks and --timeline-steps fewer of them",
      path, bytes / 1'000'000, compressed ? "" : "a name that ends in .gz takes an eighth; ");
}

}  // namespace foretrace
