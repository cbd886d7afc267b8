#pragma once
// Streams a file in the Trace Event Format, which ui.perfetto.dev, chrome://tracing and TensorBoard
// open. JSON rather than Perfetto's protobuf: all three and the user's own scripts read it, and
// with gzip the files are of like size, since names repeat. Format: "Trace Event Format", Google,
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/base/time.h"

namespace foretrace {

// A JSON string literal, quoted and escaped; malformed UTF-8 is replaced. Made once for a name that
// is written many times.
class JsonText {
 public:
  explicit JsonText(std::string_view text);
  const std::string& literal() const { return literal_; }

 private:
  std::string literal_;
};

class TraceEventWriter {
 public:
  // A process or thread row of the viewer. Thread ids start at 1.
  struct Track {
    int32_t process = 0;
    int32_t thread = 0;
  };

  // The file appears whole on Close() or not at all; compressed when `path` ends in ".gz".
  explicit TraceEventWriter(const std::string& path);
  // Without the mark by which importers refuse timelines. `tail`: members of the document, each
  // with a comma behind it, which follow the events.
  TraceEventWriter(const std::string& path, std::string tail);
  ~TraceEventWriter();
  TraceEventWriter(const TraceEventWriter&) = delete;
  TraceEventWriter& operator=(const TraceEventWriter&) = delete;

  // `labels` is shown beside the name; rows are in order of sort_index.
  void Process(int32_t process, std::string_view name, std::string_view labels, int32_t sort_index);
  void Thread(Track track, std::string_view name, int32_t sort_index);
  // Slices of one track must nest or be disjoint. `args` is the text of a JSON object, or empty.
  // Times are written in nanoseconds, each end rounded by itself, so that nesting survives.
  void Slice(Track track, const JsonText& name, std::string_view category, SimTime start,
             SimTime end, std::string_view args);
  // An arrow from the slice around `from_time` on one track to the slice around `to_time` on
  // another.
  void Flow(const JsonText& name, Track from, SimTime from_time, Track to, SimTime to_time);
  // A value of a process from `time` on.
  void Counter(int32_t process, std::string_view name, SimTime time, int64_t value);
  // Any text under "otherData"; before Close.
  void Metadata(std::string_view key, std::string_view value);

  // Ends the document and moves it in place. Errors of opening and writing are reported here, and
  // name the file; nothing may be called after it.
  absl::Status Close();

 private:
  class Sink;
  void Begin();  // separator between events

  std::unique_ptr<Sink> sink_;
  std::string buffer_;
  std::string metadata_;
  std::string tail_;
  uint64_t next_flow_ = 1;
  bool first_ = true;
};

}  // namespace foretrace
