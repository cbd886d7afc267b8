#include "simulator/exporters/timeline/timeline_writer.h"

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/utf8.h"
#include "simulator/exporters/timeline/perfetto_writer.h"
#include "simulator/exporters/timeline/trace_event_writer.h"

namespace foretrace {

TimelineText::TimelineText(std::string_view text) : text_(ValidUtf8(text)) {
  rapidjson::StringBuffer buffer;
  JsonWriter writer(buffer);
  writer.String(text_.data(), static_cast<rapidjson::SizeType>(text_.size()));
  literal_.assign(buffer.GetString(), buffer.GetSize());
}

bool IsPerfettoName(std::string_view path) {
  return path.ends_with(".pftrace") || path.ends_with(".pftrace.gz");
}

absl::Status CheckTimelineName(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const bool json = name.ends_with(".json") || name.ends_with(".json.gz");
  if (IsPerfettoName(name) || json || name.find('.') == std::string_view::npos) {
    return absl::OkStatus();
  }
  return InvalidInput(
      "--timeline {}: the name says which form is meant: give it the end .json or .pftrace, with "
      ".gz "
      "behind it to compress",
      path);
}

std::unique_ptr<TimelineWriter> MakeTimelineWriter(const std::string& path) {
  if (IsPerfettoName(path)) return std::make_unique<PerfettoWriter>(path);
  return std::make_unique<TraceEventWriter>(path);
}

int64_t TimelineNanoseconds(SimTime time) {
  const int64_t ps = time.ps();
  const int64_t shifted = ps + 500;
  return shifted >= 0 ? shifted / 1000 : -((-shifted + 999) / 1000);
}

}  // namespace foretrace
