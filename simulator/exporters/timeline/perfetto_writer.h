#pragma once
// Streams a file in Perfetto's own form (proto/perfetto_trace.proto), which ui.perfetto.dev and its
// trace processor open: names are written once, so that it takes a fraction of the Trace Event
// Format's room and loads faster.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "simulator/base/time.h"
#include "simulator/exporters/timeline/compressed_file.h"
#include "simulator/exporters/timeline/timeline_writer.h"

namespace foretrace {

class PerfettoWriter : public TimelineWriter {
 public:
  // Compressed when `path` ends in ".gz".
  explicit PerfettoWriter(const std::string& path);
  ~PerfettoWriter() override;

  void Process(int32_t process, std::string_view name, std::string_view labels,
               int32_t sort_index) override;
  void Thread(Track track, std::string_view name, int32_t sort_index) override;
  using TimelineWriter::Slice;
  void Slice(Track track, const TimelineText& name, std::string_view category, SimTime start,
             SimTime end, std::span<const TimelineArg> args) override;
  void Flow(const TimelineText& name, Track from, SimTime from_time, Track to,
            SimTime to_time) override;
  void Counter(int32_t process, std::string_view name, SimTime time, int64_t value) override;
  // As Chrome's own metadata, in the trace processor's table of them.
  void Metadata(std::string_view key, std::string_view value) override;
  absl::Status Close() override;

 private:
  struct Packet;  // the generated messages stay out of this header
  using Numbers = absl::flat_hash_map<std::string, uint64_t>;

  // A row of the viewer by its number, and the ends, in nanoseconds, of its slices that are not yet
  // written.
  struct Row {
    uint64_t uuid = 0;
    std::vector<int64_t> open;
  };

  void Write();  // the packet, which is empty afterwards
  void BeginEvent(const Row& row, int64_t ns);
  void EndSlices(Row& row, int64_t until);
  Row& RowOf(Track track);
  uint64_t NumberOf(Numbers& numbers, std::string_view text, int list);

  CompressedFile file_;
  std::unique_ptr<Packet> packet_;
  std::string buffer_;
  absl::flat_hash_map<std::pair<int32_t, int32_t>, Row> rows_;
  absl::flat_hash_map<int32_t, uint64_t> processes_;
  absl::flat_hash_map<std::pair<int32_t, std::string>, uint64_t> counters_;
  Numbers categories_, names_, keys_;
  uint64_t next_track_ = 1;
  uint64_t next_flow_ = 1;
};

}  // namespace foretrace
