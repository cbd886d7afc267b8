#include "simulator/exporters/timeline/trace_event_writer.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "simulator/base/timeline_mark.h"

namespace foretrace {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Microseconds with three decimals, without going through floating point.
void AppendMicroseconds(std::string& out, int64_t ns) {
  if (ns < 0) {
    out += '-';
    ns = -ns;
  }
  const auto fraction = static_cast<int>(ns % 1000);
  const fmt::format_int whole(ns / 1000);
  out.append(whole.data(), whole.size());
  if (fraction == 0) return;
  out += '.';
  out += static_cast<char>('0' + fraction / 100);
  out += static_cast<char>('0' + fraction / 10 % 10);
  out += static_cast<char>('0' + fraction % 10);
}

void AppendTrack(std::string& out, TimelineWriter::Track track) {
  fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"pid\":{},\"tid\":{}"), track.process,
                 track.thread);
}

void AppendText(std::string& out, std::string_view text) {
  const bool plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (!plain) {
    out += TimelineText(text).literal();
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

}  // namespace

// Without displayTimeUnit, which viewers take for different things: Perfetto 20 for the unit of ts.
TraceEventWriter::TraceEventWriter(const std::string& path) : file_(path), first_(false) {
  buffer_.reserve(kBufferBytes + 65536);
  buffer_ = kTimelineMark;
  buffer_ += "\"args\":{}}";
}

TraceEventWriter::TraceEventWriter(const std::string& path, std::string tail)
    : file_(path), tail_(std::move(tail)) {
  buffer_.reserve(kBufferBytes + 65536);
  buffer_ = "{\"traceEvents\":[";
}

void TraceEventWriter::Begin() {
  if (buffer_.size() >= kBufferBytes) {
    file_.Append(buffer_);
    buffer_.clear();
  }
  buffer_ += first_ ? "\n{" : ",\n{";
  first_ = false;
}

void TraceEventWriter::Process(int32_t process, std::string_view name, std::string_view labels,
                               int32_t sort_index) {
  const auto meta = [&](std::string_view what, std::string_view args) {
    Begin();
    fmt::format_to(std::back_inserter(buffer_),
                   FMT_COMPILE("\"ph\":\"M\",\"pid\":{},\"tid\":0,\"ts\":0,\"name\":\"{}\","
                               "\"args\":{{{}}}}}"),
                   process, what, args);
  };
  meta("process_name", "\"name\":" + TimelineText(name).literal());
  if (!labels.empty()) meta("process_labels", "\"labels\":" + TimelineText(labels).literal());
  meta("process_sort_index", fmt::format("\"sort_index\":{}", sort_index));
}

void TraceEventWriter::Thread(Track track, std::string_view name, int32_t sort_index) {
  Begin();
  buffer_ += "\"ph\":\"M\",\"ts\":0,\"name\":\"thread_name\"";
  AppendTrack(buffer_, track);
  buffer_ += ",\"args\":{\"name\":" + TimelineText(name).literal() + "}}";
  Begin();
  buffer_ += "\"ph\":\"M\",\"ts\":0,\"name\":\"thread_sort_index\"";
  AppendTrack(buffer_, track);
  fmt::format_to(std::back_inserter(buffer_), FMT_COMPILE(",\"args\":{{\"sort_index\":{}}}}}"),
                 sort_index);
}

void TraceEventWriter::Slice(Track track, const TimelineText& name, std::string_view category,
                             SimTime start, SimTime end, std::span<const TimelineArg> args) {
  std::string json;
  for (const TimelineArg& arg : args) {
    json += json.empty() ? "{\"" : ",\"";
    json += arg.key;
    json += "\":";
    if (const int64_t* number = std::get_if<int64_t>(&arg.value)) {
      fmt::format_to(std::back_inserter(json), FMT_COMPILE("{}"), *number);
    } else {
      AppendText(json, std::get<std::string_view>(arg.value));
    }
  }
  if (!json.empty()) json += '}';
  SliceWithJson(track, name, category, start, end, json);
}

void TraceEventWriter::SliceWithJson(Track track, const TimelineText& name,
                                     std::string_view category, SimTime start, SimTime end,
                                     std::string_view args) {
  const int64_t from = TimelineNanoseconds(start);
  const int64_t to = TimelineNanoseconds(end);
  Begin();
  buffer_ += "\"ph\":\"X\",\"name\":";
  buffer_ += name.literal();
  buffer_ += ",\"cat\":\"";
  buffer_ += category;
  buffer_ += '"';
  AppendTrack(buffer_, track);
  buffer_ += ",\"ts\":";
  AppendMicroseconds(buffer_, from);
  buffer_ += ",\"dur\":";
  AppendMicroseconds(buffer_, to > from ? to - from : 0);
  if (!args.empty()) {
    buffer_ += ",\"args\":";
    buffer_ += args;
  }
  buffer_ += '}';
}

void TraceEventWriter::Flow(const TimelineText& name, Track from, SimTime from_time, Track to,
                            SimTime to_time) {
  const auto half = [&](std::string_view phase, Track track, SimTime time) {
    Begin();
    buffer_ += phase;
    buffer_ += name.literal();
    fmt::format_to(std::back_inserter(buffer_), FMT_COMPILE(",\"cat\":\"flow\",\"id\":{}"),
                   next_flow_);
    AppendTrack(buffer_, track);
    buffer_ += ",\"ts\":";
    AppendMicroseconds(buffer_, TimelineNanoseconds(time));
    buffer_ += '}';
  };
  half("\"ph\":\"s\",\"name\":", from, from_time);
  // Binding point "e": the slice around the instant, not the next one to begin.
  half("\"ph\":\"f\",\"bp\":\"e\",\"name\":", to, to_time);
  ++next_flow_;
}

void TraceEventWriter::Counter(int32_t process, std::string_view name, SimTime time,
                               int64_t value) {
  Begin();
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_COMPILE("\"ph\":\"C\",\"pid\":{},\"tid\":0,\"name\":\"{}\",\"ts\":"), process,
                 name);
  AppendMicroseconds(buffer_, TimelineNanoseconds(time));
  fmt::format_to(std::back_inserter(buffer_), FMT_COMPILE(",\"args\":{{\"value\":{}}}}}"), value);
}

void TraceEventWriter::Metadata(std::string_view key, std::string_view value) {
  if (!metadata_.empty()) metadata_ += ',';
  metadata_ += TimelineText(key).literal() + ":" + TimelineText(value).literal();
}

absl::Status TraceEventWriter::Close() {
  buffer_ += "\n],\n" + tail_ + "\"otherData\":{" + metadata_ + "}}\n";
  file_.Append(buffer_);
  return file_.Commit();
}

}  // namespace foretrace
