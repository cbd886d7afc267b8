#include "simulator/report/timeline_filter.h"

#include <algorithm>

namespace foretrace {

bool TimelineFilter::Keeps(int32_t process, SimTime start, SimTime end) const {
  if (all_) return true;
  const auto kept = kept_.find(process);
  if (kept == kept_.end()) return false;
  return kept->second.empty() || std::ranges::any_of(kept->second, [&](const Stretch& s) {
           return start < s.second && (end > s.first || (start == end && start == s.first));
         });
}

void TimelineFilter::Process(int32_t process, std::string_view name, std::string_view labels,
                             int32_t sort_index) {
  if (Keeps(process)) out_.Process(process, name, labels, sort_index);
}

void TimelineFilter::Thread(Track track, std::string_view name, int32_t sort_index) {
  if (Keeps(track.process)) out_.Thread(track, name, sort_index);
}

void TimelineFilter::Slice(Track track, const TimelineText& name, std::string_view category,
                           SimTime start, SimTime end, std::span<const TimelineArg> args) {
  if (Keeps(track.process, start, end)) out_.Slice(track, name, category, start, end, args);
}

void TimelineFilter::Flow(const TimelineText& name, Track from, SimTime from_time, Track to,
                          SimTime to_time) {
  const bool both = Keeps(from.process, from_time, from_time + SimTime::FromPs(1)) &&
                    Keeps(to.process, to_time, to_time + SimTime::FromPs(1));
  if (both) out_.Flow(name, from, from_time, to, to_time);
}

void TimelineFilter::Counter(int32_t process, std::string_view name, SimTime time, int64_t value) {
  if (Keeps(process, time, time + SimTime::FromPs(1))) out_.Counter(process, name, time, value);
}

void TimelineFilter::Metadata(std::string_view key, std::string_view value) {
  out_.Metadata(key, value);
}

}  // namespace foretrace
