#include "simulator/exporters/timeline/trace_event_writer.h"

#include <fmt/compile.h>
#include <fmt/format.h>
#include <zlib.h>

#include <iterator>
#include <utility>

#include "simulator/base/atomic_file.h"
#include "simulator/base/check.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/timeline_mark.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Nanoseconds, rounded to nearest: monotone, so that order and nesting of instants survive.
int64_t Nanoseconds(SimTime time) {
  const int64_t ps = time.ps();
  const int64_t shifted = ps + 500;
  return shifted >= 0 ? shifted / 1000 : -((-shifted + 999) / 1000);
}

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

void AppendTrack(std::string& out, TraceEventWriter::Track track) {
  fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"pid\":{},\"tid\":{}"), track.process,
                 track.thread);
}

}  // namespace

// The file, through gzip where asked.
class TraceEventWriter::Sink {
 public:
  explicit Sink(const std::string& path) : file_(path), compress_(path.ends_with(".gz")) {
    if (!compress_) return;
    // Level 1: several times faster than the default, for files about a fifth larger. 15 + 16: the
    // largest window, with gzip's header.
    const int status = deflateInit2(&stream_, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    FORETRACE_CHECK(status == Z_OK);
    compressed_.resize(kBufferBytes / 4);
  }
  ~Sink() {
    if (compress_) deflateEnd(&stream_);
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void Write(std::string_view text, bool last) {
    if (!compress_) {
      file_.Append(text);
      return;
    }
    // zlib's interface is not const-correct; it does not write through next_in.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(compressed_.data());
      stream_.avail_out = static_cast<uInt>(compressed_.size());
      const int status = deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      FORETRACE_CHECK(status != Z_STREAM_ERROR);
      file_.Append({compressed_.data(), compressed_.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }
  absl::Status Commit() { return file_.Commit(); }

 private:
  AtomicFile file_;
  bool compress_;
  z_stream stream_{};
  std::string compressed_;
};

JsonText::JsonText(std::string_view text) {
  const std::string valid = ValidUtf8(text);
  rapidjson::StringBuffer buffer;
  JsonWriter writer(buffer);
  writer.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
  literal_.assign(buffer.GetString(), buffer.GetSize());
}

// Without displayTimeUnit, which viewers take for different things: Perfetto 20 for the unit of ts.
TraceEventWriter::TraceEventWriter(const std::string& path)
    : sink_(std::make_unique<Sink>(path)), first_(false) {
  buffer_.reserve(kBufferBytes + 65536);
  buffer_ = kTimelineMark;
  buffer_ += "\"args\":{}}";
}

TraceEventWriter::TraceEventWriter(const std::string& path, std::string tail)
    : sink_(std::make_unique<Sink>(path)), tail_(std::move(tail)) {
  buffer_.reserve(kBufferBytes + 65536);
  buffer_ = "{\"traceEvents\":[";
}

TraceEventWriter::~TraceEventWriter() = default;

void TraceEventWriter::Begin() {
  if (buffer_.size() >= kBufferBytes) {
    sink_->Write(buffer_, /*last=*/false);
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
  meta("process_name", "\"name\":" + JsonText(name).literal());
  if (!labels.empty()) meta("process_labels", "\"labels\":" + JsonText(labels).literal());
  meta("process_sort_index", fmt::format("\"sort_index\":{}", sort_index));
}

void TraceEventWriter::Thread(Track track, std::string_view name, int32_t sort_index) {
  Begin();
  buffer_ += "\"ph\":\"M\",\"ts\":0,\"name\":\"thread_name\"";
  AppendTrack(buffer_, track);
  buffer_ += ",\"args\":{\"name\":" + JsonText(name).literal() + "}}";
  Begin();
  buffer_ += "\"ph\":\"M\",\"ts\":0,\"name\":\"thread_sort_index\"";
  AppendTrack(buffer_, track);
  fmt::format_to(std::back_inserter(buffer_), FMT_COMPILE(",\"args\":{{\"sort_index\":{}}}}}"),
                 sort_index);
}

void TraceEventWriter::Slice(Track track, const JsonText& name, std::string_view category,
                             SimTime start, SimTime end, std::string_view args) {
  const int64_t from = Nanoseconds(start);
  const int64_t to = Nanoseconds(end);
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

void TraceEventWriter::Flow(const JsonText& name, Track from, SimTime from_time, Track to,
                            SimTime to_time) {
  const auto half = [&](std::string_view phase, Track track, SimTime time) {
    Begin();
    buffer_ += phase;
    buffer_ += name.literal();
    fmt::format_to(std::back_inserter(buffer_), FMT_COMPILE(",\"cat\":\"flow\",\"id\":{}"),
                   next_flow_);
    AppendTrack(buffer_, track);
    buffer_ += ",\"ts\":";
    AppendMicroseconds(buffer_, Nanoseconds(time));
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
  AppendMicroseconds(buffer_, Nanoseconds(time));
  fmt::format_to(std::back_inserter(buffer_), FMT_COMPILE(",\"args\":{{\"value\":{}}}}}"), value);
}

void TraceEventWriter::Metadata(std::string_view key, std::string_view value) {
  if (!metadata_.empty()) metadata_ += ',';
  metadata_ += JsonText(key).literal() + ":" + JsonText(value).literal();
}

absl::Status TraceEventWriter::Close() {
  buffer_ += "\n],\n" + tail_ + "\"otherData\":{" + metadata_ + "}}\n";
  sink_->Write(buffer_, /*last=*/true);
  return sink_->Commit();
}

}  // namespace foretrace
