#pragma once

#include <map>
#include <utility>
#include <vector>

#include "simulator/exporters/timeline/timeline_writer.h"

namespace foretrace {

// Passes on what lies in some processes, and there in some stretches of time: slices that overlap
// one, arrows of which both ends do and both slices can be there, counters within.
class TimelineFilter : public TimelineWriter {
 public:
  using Stretch = std::pair<SimTime, SimTime>;  // [begin, end)

  explicit TimelineFilter(TimelineWriter& out) : out_(out) {}
  // Of all else nothing is passed on. `stretches` empty: all of it.
  void Keep(int32_t process, std::vector<Stretch> stretches) {
    kept_[process] = std::move(stretches);
  }
  void KeepAll() { all_ = true; }

  void Process(int32_t process, std::string_view name, std::string_view labels,
               int32_t sort_index) override;
  void Thread(Track track, std::string_view name, int32_t sort_index) override;
  using TimelineWriter::Slice;
  void Slice(Track track, const TimelineText& name, std::string_view category, SimTime start,
             SimTime end, std::span<const TimelineArg> args) override;
  void Flow(const TimelineText& name, Track from, SimTime from_time, Track to,
            SimTime to_time) override;
  void Counter(int32_t process, std::string_view name, SimTime time, int64_t value) override;
  void Metadata(std::string_view key, std::string_view value) override;
  absl::Status Close() override { return out_.Close(); }

 private:
  bool Keeps(int32_t process) const { return all_ || kept_.contains(process); }
  bool Keeps(int32_t process, SimTime start, SimTime end) const;

  TimelineWriter& out_;
  bool all_ = false;
  std::map<int32_t, std::vector<Stretch>> kept_;  // no stretch: all
};

}  // namespace foretrace
