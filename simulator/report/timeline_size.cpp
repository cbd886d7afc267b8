#include "simulator/report/timeline_size.h"

#include "simulator/base/error.h"
#include "simulator/exporters/timeline/timeline_writer.h"

namespace foretrace {
namespace {

// A node as predicted and as recorded, with its arrows: 300 to 480 bytes on five jobs, and an
// eighth of that compressed; in Perfetto's form 97 to 131 and a fifth (`predict --timeline`, size
// of the file over nodes of `inspect --json`).
constexpr uint64_t kBytesOfNode = 320, kCompression = 8;
constexpr uint64_t kPerfettoBytesOfNode = 115, kPerfettoCompression = 5;
constexpr uint64_t kMostBytes = 500'000'000;

}  // namespace

absl::Status CheckTimelineSize(uint64_t nodes, std::string_view path) {
  const bool compressed = path.ends_with(".gz");
  const bool perfetto = IsPerfettoName(path);
  uint64_t bytes = nodes * (perfetto ? kPerfettoBytesOfNode : kBytesOfNode);
  if (compressed) bytes /= perfetto ? kPerfettoCompression : kCompression;
  if (bytes <= kMostBytes) return absl::OkStatus();
  return Infeasible(
      "{}: the timeline would take about {} MB, more than viewers open; {}--timeline DIR/ writes a "
      "file a rank, --timeline-ranks and --timeline-steps fewer of them",
      path, bytes / 1'000'000,
      compressed && perfetto ? ""
                             : "a name that ends in .pftrace.gz takes a fourteenth of .json; ");
}

}  // namespace foretrace
