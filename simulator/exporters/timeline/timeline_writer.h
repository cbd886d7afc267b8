#pragma once
// What draws a timeline knows of the file that it becomes: rows, slices, arrows, counters.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "simulator/base/time.h"

namespace foretrace {

// A name, with malformed UTF-8 replaced, and as a JSON string literal, quoted and escaped. Made
// once for a name that is written many times.
class TimelineText {
 public:
  explicit TimelineText(std::string_view text);
  const std::string& text() const { return text_; }
  const std::string& literal() const { return literal_; }

 private:
  std::string text_, literal_;
};

// What a viewer shows of a slice besides its name. Keys are literals of the program.
struct TimelineArg {
  std::string_view key;
  std::variant<int64_t, std::string_view> value;
};

class TimelineWriter {
 public:
  // A process or thread row of the viewer. Thread ids start at 1.
  struct Track {
    int32_t process = 0;
    int32_t thread = 0;
  };

  virtual ~TimelineWriter() = default;

  // `labels` is shown beside the name; rows are in order of sort_index. A process comes before its
  // threads, and these before what is drawn on them.
  virtual void Process(int32_t process, std::string_view name, std::string_view labels,
                       int32_t sort_index) = 0;
  virtual void Thread(Track track, std::string_view name, int32_t sort_index) = 0;
  // Slices of one track come in order of their start, and nest or are disjoint. Times are written
  // in nanoseconds, each end rounded by itself, so that nesting survives; none is negative.
  virtual void Slice(Track track, const TimelineText& name, std::string_view category,
                     SimTime start, SimTime end, std::span<const TimelineArg> args) = 0;
  void Slice(Track track, const TimelineText& name, std::string_view category, SimTime start,
             SimTime end) {
    Slice(track, name, category, start, end, std::span<const TimelineArg>());
  }
  // An arrow from the slice around `from_time` on one track to the slice around `to_time` on
  // another.
  virtual void Flow(const TimelineText& name, Track from, SimTime from_time, Track to,
                    SimTime to_time) = 0;
  // A value of a process from `time` on.
  virtual void Counter(int32_t process, std::string_view name, SimTime time, int64_t value) = 0;
  // Any text about the file; before Close.
  virtual void Metadata(std::string_view key, std::string_view value) = 0;

  // Ends the document and moves it in place. Errors of opening and writing are reported here, and
  // name the file; nothing may be called after it.
  virtual absl::Status Close() = 0;
};

// Whether `path` names a file in Perfetto's own form: ".pftrace" or ".pftrace.gz".
bool IsPerfettoName(std::string_view path);

// Refuses a name whose end asks for no form that there is: ".json", or none, or ".pftrace", with
// ".gz" behind either.
absl::Status CheckTimelineName(std::string_view path);

// The writer of the form that the name asks for: Perfetto's, or else the Trace Event Format. The
// file appears whole on Close() or not at all; compressed when `path` ends in ".gz".
std::unique_ptr<TimelineWriter> MakeTimelineWriter(const std::string& path);

// Nanoseconds, rounded to nearest: monotone, so that order and nesting of instants survive.
int64_t TimelineNanoseconds(SimTime time);

}  // namespace foretrace
