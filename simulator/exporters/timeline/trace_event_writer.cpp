#include "simulator/exporters/timeline/trace_event_writer.h"

#include <fmt/compile.h>
#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
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

// zlib's gzFile also writes plain files, so that both kinds share one path.
struct TraceEventWriter::File {
  gzFile gz = nullptr;
  std::string partial;
  std::string error;
};

JsonText::JsonText(std::string_view text) {
  const std::string valid = ValidUtf8(text);
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
  literal_.assign(buffer.GetString(), buffer.GetSize());
}

absl::StatusOr<std::unique_ptr<TraceEventWriter>> TraceEventWriter::Create(
    const std::string& path) {
  auto file = std::make_unique<File>();
  file->partial = path + ".partial";
  // "T": plain, without compression. Level 1: five times faster than the default here and about a
  // fifth larger.
  errno = 0;
  file->gz = gzopen(file->partial.c_str(), path.ends_with(".gz") ? "wb1" : "wbT");
  if (file->gz == nullptr) {
    return InvalidInput("{}: cannot be written: {}", path,
                        errno != 0 ? std::strerror(errno) : "out of memory");
  }
  gzbuffer(file->gz, 1u << 18);
  return std::unique_ptr<TraceEventWriter>(new TraceEventWriter(path, std::move(file)));
}

TraceEventWriter::TraceEventWriter(std::string path, std::unique_ptr<File> file)
    : path_(std::move(path)), file_(std::move(file)) {
  buffer_.reserve(kBufferBytes + 65536);
  buffer_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
}

TraceEventWriter::~TraceEventWriter() {
  if (file_->gz == nullptr) return;
  gzclose(file_->gz);
  std::remove(file_->partial.c_str());
}

void TraceEventWriter::Begin() {
  if (buffer_.size() >= kBufferBytes) Flush();
  buffer_ += first_ ? "\n{" : ",\n{";
  first_ = false;
}

void TraceEventWriter::Flush() {
  FORETRACE_CHECK(file_->gz != nullptr);
  size_t at = 0;
  while (file_->error.empty() && at < buffer_.size()) {
    const auto chunk = static_cast<unsigned>(std::min<size_t>(buffer_.size() - at, kBufferBytes));
    errno = 0;
    const int written = gzwrite(file_->gz, buffer_.data() + at, chunk);
    if (written <= 0) {
      file_->error = errno != 0 ? std::strerror(errno) : "write failed";
      break;
    }
    at += static_cast<size_t>(written);
  }
  buffer_.clear();
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

void TraceEventWriter::Metadata(std::string_view key, std::string_view value) {
  if (!metadata_.empty()) metadata_ += ',';
  metadata_ += JsonText(key).literal() + ":" + JsonText(value).literal();
}

absl::Status TraceEventWriter::Close() {
  FORETRACE_CHECK(file_->gz != nullptr);
  buffer_ += "\n],\"otherData\":{" + metadata_ + "}}\n";
  Flush();
  errno = 0;
  const int closed = gzclose(std::exchange(file_->gz, nullptr));
  if (file_->error.empty() && closed != Z_OK) {
    file_->error = errno != 0 ? std::strerror(errno) : "write failed";
  }
  if (file_->error.empty() && std::rename(file_->partial.c_str(), path_.c_str()) != 0) {
    file_->error = std::strerror(errno);
  }
  if (file_->error.empty()) return absl::OkStatus();
  std::remove(file_->partial.c_str());
  return InvalidInput("{}: the timeline could not be written: {}", path_, file_->error);
}

}  // namespace foretrace
