#pragma once
// Streams a file in the Trace Event Format, which ui.perfetto.dev, chrome://tracing and TensorBoard
// open, and the user's own scripts read. Format: "Trace Event Format", Google,
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/base/time.h"
#include "simulator/exporters/timeline/compressed_file.h"
#include "simulator/exporters/timeline/timeline_writer.h"

namespace foretrace {

class TraceEventWriter : public TimelineWriter {
 public:
  // The file appears whole on Close() or not at all; compressed when `path` ends in ".gz".
  explicit TraceEventWriter(const std::string& path);
  // Without the mark by which importers refuse timelines. `tail`: members of the document, each
  // with a comma behind it, which follow the events.
  TraceEventWriter(const std::string& path, std::string tail);

  void Process(int32_t process, std::string_view name, std::string_view labels,
               int32_t sort_index) override;
  void Thread(Track track, std::string_view name, int32_t sort_index) override;
  using TimelineWriter::Slice;
  void Slice(Track track, const TimelineText& name, std::string_view category, SimTime start,
             SimTime end, std::span<const TimelineArg> args) override;
  // `args` is the text of a JSON object.
  void SliceWithJson(Track track, const TimelineText& name, std::string_view category,
                     SimTime start, SimTime end, std::string_view args);
  void Flow(const TimelineText& name, Track from, SimTime from_time, Track to,
            SimTime to_time) override;
  void Counter(int32_t process, std::string_view name, SimTime time, int64_t value) override;
  // Under "otherData".
  void Metadata(std::string_view key, std::string_view value) override;
  absl::Status Close() override;

 private:
  void Begin();  // separator between events

  CompressedFile file_;
  std::string buffer_;
  std::string metadata_;
  std::string tail_;
  uint64_t next_flow_ = 1;
  bool first_ = true;
};

}  // namespace foretrace
