#include "simulator/exporters/timeline/perfetto_writer.h"

#include <algorithm>
#include <limits>

#include "absl/strings/string_view.h"
#include "perfetto_trace.pb.h"
#include "simulator/base/check.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

namespace wire = perfetto_wire;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr uint32_t kSequence = 1;  // all packets are of one writer
constexpr uint32_t kCleared = 1, kNeedsTexts = 2;

uint64_t Timestamp(int64_t ns) {
  FORETRACE_CHECK(ns >= 0);
  return static_cast<uint64_t>(ns);
}

}  // namespace

// One packet of a trace: what one of its packets is written as, appended to others, is a trace.
struct PerfettoWriter::Packet {
  wire::Trace trace;
  wire::TracePacket& Get() {
    if (trace.packet_size() > 0) return *trace.mutable_packet(0);
    wire::TracePacket& packet = *trace.add_packet();
    packet.set_trusted_packet_sequence_id(kSequence);
    packet.set_sequence_flags(kNeedsTexts);
    return packet;
  }
};

PerfettoWriter::PerfettoWriter(const std::string& path)
    : file_(path), packet_(std::make_unique<Packet>()) {
  buffer_.reserve(kBufferBytes + 65536);
  // The packet of kPerfettoTimelineMark.
  packet_->Get().set_sequence_flags(kCleared | kNeedsTexts);
  Metadata("foretrace_timeline", "1");
}

PerfettoWriter::~PerfettoWriter() = default;

void PerfettoWriter::Write() {
  packet_->trace.AppendToString(&buffer_);
  packet_->trace.Clear();
  if (buffer_.size() < kBufferBytes) return;
  file_.Append(buffer_);
  buffer_.clear();
}

void PerfettoWriter::Process(int32_t process, std::string_view name, std::string_view labels,
                             int32_t sort_index) {
  const uint64_t uuid = next_track_++;
  processes_[process] = uuid;
  wire::TrackDescriptor& track = *packet_->Get().mutable_track_descriptor();
  track.set_uuid(uuid);
  wire::ProcessDescriptor& descriptor = *track.mutable_process();
  descriptor.set_pid(process);
  descriptor.set_legacy_sort_index(sort_index);
  descriptor.set_process_name(ValidUtf8(name));
  if (!labels.empty()) descriptor.add_process_labels(ValidUtf8(labels));
  Write();
}

void PerfettoWriter::Thread(Track track, std::string_view name, int32_t sort_index) {
  Row& row = rows_[{track.process, track.thread}];
  if (row.uuid == 0) row.uuid = next_track_++;
  wire::TrackDescriptor& descriptor = *packet_->Get().mutable_track_descriptor();
  descriptor.set_uuid(row.uuid);
  wire::ThreadDescriptor& thread = *descriptor.mutable_thread();
  thread.set_pid(track.process);
  thread.set_tid(track.thread);
  thread.set_legacy_sort_index(sort_index);
  thread.set_thread_name(ValidUtf8(name));
  Write();
}

PerfettoWriter::Row& PerfettoWriter::RowOf(Track track) {
  const auto found = rows_.find({track.process, track.thread});
  FORETRACE_CHECK(found != rows_.end());
  return found->second;
}

uint64_t PerfettoWriter::NumberOf(Numbers& numbers, std::string_view text, int list) {
  const auto found = numbers.find(absl::string_view(text.data(), text.size()));
  if (found != numbers.end()) return found->second;
  const uint64_t number = numbers.size() + 1;
  numbers.emplace(text, number);
  wire::InternedData& data = *packet_->Get().mutable_interned_data();
  wire::InternedText* entry = nullptr;
  if (list == wire::InternedData::kEventCategoriesFieldNumber) entry = data.add_event_categories();
  if (list == wire::InternedData::kEventNamesFieldNumber) entry = data.add_event_names();
  if (entry == nullptr) entry = data.add_debug_annotation_names();
  entry->set_iid(number);
  entry->set_name(std::string(text));
  return number;
}

void PerfettoWriter::BeginEvent(const Row& row, int64_t ns) {
  packet_->Get().set_timestamp(Timestamp(ns));
  packet_->Get().mutable_track_event()->set_track_uuid(row.uuid);
}

void PerfettoWriter::EndSlices(Row& row, int64_t until) {
  while (!row.open.empty() && row.open.back() <= until) {
    BeginEvent(row, row.open.back());
    packet_->Get().mutable_track_event()->set_type(wire::TrackEvent::TYPE_SLICE_END);
    Write();
    row.open.pop_back();
  }
}

void PerfettoWriter::Slice(Track track, const TimelineText& name, std::string_view category,
                           SimTime start, SimTime end, std::span<const TimelineArg> args) {
  const int64_t from = TimelineNanoseconds(start);
  Row& row = RowOf(track);
  EndSlices(row, from);
  BeginEvent(row, from);
  wire::TrackEvent& event = *packet_->Get().mutable_track_event();
  event.set_type(wire::TrackEvent::TYPE_SLICE_BEGIN);
  event.add_category_iids(
      NumberOf(categories_, category, wire::InternedData::kEventCategoriesFieldNumber));
  event.set_name_iid(NumberOf(names_, name.text(), wire::InternedData::kEventNamesFieldNumber));
  for (const TimelineArg& arg : args) {
    wire::DebugAnnotation& annotation = *event.add_debug_annotations();
    annotation.set_name_iid(
        NumberOf(keys_, arg.key, wire::InternedData::kDebugAnnotationNamesFieldNumber));
    if (const int64_t* number = std::get_if<int64_t>(&arg.value)) {
      annotation.set_int_value(*number);
    } else {
      annotation.set_string_value(ValidUtf8(std::get<std::string_view>(arg.value)));
    }
  }
  Write();
  row.open.push_back(std::max(from, TimelineNanoseconds(end)));
}

void PerfettoWriter::Flow(const TimelineText& name, Track from, SimTime from_time, Track to,
                          SimTime to_time) {
  const auto half = [&](char phase, Track track, SimTime time) {
    BeginEvent(RowOf(track), TimelineNanoseconds(time));
    wire::TrackEvent& event = *packet_->Get().mutable_track_event();
    event.add_category_iids(
        NumberOf(categories_, "flow", wire::InternedData::kEventCategoriesFieldNumber));
    event.set_name_iid(NumberOf(names_, name.text(), wire::InternedData::kEventNamesFieldNumber));
    wire::TrackEvent::LegacyEvent& legacy = *event.mutable_legacy_event();
    legacy.set_phase(phase);
    legacy.set_unscoped_id(next_flow_);
    // The slice around the instant, not the next one to begin.
    if (phase == 'f') legacy.set_bind_to_enclosing(true);
    Write();
  };
  half('s', from, from_time);
  half('f', to, to_time);
  ++next_flow_;
}

void PerfettoWriter::Counter(int32_t process, std::string_view name, SimTime time, int64_t value) {
  uint64_t& uuid = counters_[{process, std::string(name)}];
  if (uuid == 0) {
    uuid = next_track_++;
    wire::TrackDescriptor& track = *packet_->Get().mutable_track_descriptor();
    track.set_uuid(uuid);
    track.set_parent_uuid(processes_.at(process));
    track.set_name(ValidUtf8(name));
    track.mutable_counter();
    Write();
  }
  packet_->Get().set_timestamp(Timestamp(TimelineNanoseconds(time)));
  wire::TrackEvent& event = *packet_->Get().mutable_track_event();
  event.set_type(wire::TrackEvent::TYPE_COUNTER);
  event.set_track_uuid(uuid);
  event.set_counter_value(value);
  Write();
}

void PerfettoWriter::Metadata(std::string_view key, std::string_view value) {
  wire::ChromeMetadata& entry = *packet_->Get().mutable_chrome_events()->add_metadata();
  entry.set_name(ValidUtf8(key));
  entry.set_string_value(ValidUtf8(value));
  Write();
}

absl::Status PerfettoWriter::Close() {
  std::vector<Row*> rows;
  for (auto& [track, row] : rows_) rows.push_back(&row);
  std::ranges::sort(rows, {}, &Row::uuid);  // the same bytes every time
  for (Row* row : rows) EndSlices(*row, std::numeric_limits<int64_t>::max());
  file_.Append(buffer_);
  return file_.Commit();
}

}  // namespace foretrace
