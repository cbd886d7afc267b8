#include "simulator/exporters/timeline/perfetto_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "perfetto_trace.pb.h"
#include "simulator/base/timeline_mark.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using perfetto_wire::TrackEvent;
using testing::ElementsAre;

std::string TempPath(const std::string& name) {
  static const TempFolder folder;
  return folder.path() + "/" + name;
}

std::string Bytes(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string bytes(1 << 20, '\0');
  const int size = gzread(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return bytes;
}

perfetto_wire::Trace Parsed(const std::string& path) {
  perfetto_wire::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(Bytes(path)));
  std::filesystem::remove(path);
  return trace;
}

// Events of a trace in its order, with texts for their numbers: "B name@track ts", "E @track ts".
std::vector<std::string> Events(const perfetto_wire::Trace& trace) {
  std::map<uint64_t, std::string> names, rows;
  std::vector<std::string> events;
  for (const auto& packet : trace.packet()) {
    EXPECT_EQ(packet.trusted_packet_sequence_id(), 1u);
    for (const auto& text : packet.interned_data().event_names()) names[text.iid()] = text.name();
    if (packet.has_track_descriptor()) {
      const auto& track = packet.track_descriptor();
      rows[track.uuid()] = track.has_thread()    ? track.thread().thread_name()
                           : track.has_process() ? track.process().process_name()
                                                 : track.name();
    }
    if (!packet.has_track_event()) continue;
    const TrackEvent& e = packet.track_event();
    EXPECT_TRUE(packet.has_timestamp());
    EXPECT_TRUE(rows.contains(e.track_uuid()));
    std::ostringstream line;
    switch (e.type()) {
      case TrackEvent::TYPE_SLICE_BEGIN:
        line << "B " << names.at(e.name_iid());
        break;
      case TrackEvent::TYPE_SLICE_END:
        line << "E ";
        break;
      case TrackEvent::TYPE_COUNTER:
        line << "C " << e.counter_value();
        break;
      default:
        line << static_cast<char>(e.legacy_event().phase()) << e.legacy_event().unscoped_id() << " "
             << names.at(e.name_iid());
    }
    line << "@" << rows.at(e.track_uuid()) << " " << packet.timestamp();
    events.push_back(line.str());
  }
  return events;
}

TEST(PerfettoWriter, SlicesNestAndAreEndedInnermostFirst) {
  const std::string path = TempPath("slices.pftrace");
  PerfettoWriter writer(path);
  writer.Process(1, "rank 0", "GPU", 1);
  writer.Thread({1, 1}, "cpu", 0);
  const auto slice = [&](const char* name, int64_t from, int64_t to) {
    writer.Slice({1, 1}, TimelineText(name), "op", SimTime::FromNs(from), SimTime::FromNs(to));
  };
  // a [0, 10] holds b [0, 4], which holds nothing, and c [4, 10]; d [10, 10] follows a.
  slice("a", 0, 10);
  slice("b", 0, 4);
  slice("c", 4, 10);
  slice("d", 10, 10);
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_TRUE(Bytes(path).starts_with(kPerfettoTimelineMark));
  EXPECT_THAT(Events(Parsed(path)),
              ElementsAre("B a@cpu 0", "B b@cpu 0", "E @cpu 4", "B c@cpu 4", "E @cpu 10",
                          "E @cpu 10", "B d@cpu 10", "E @cpu 10"));
}

TEST(PerfettoWriter, ArrowsCountersAndRows) {
  const std::string path = TempPath("rows.pftrace.gz");
  PerfettoWriter writer(path);
  writer.Process(1, "rank 0", "H100", 7);
  writer.Thread({1, 2}, "stream", 3);
  writer.Slice({1, 2}, TimelineText("k"), "kernel", SimTime::FromNs(5), SimTime::FromNs(9));
  writer.Flow(TimelineText("launch"), {1, 2}, SimTime::FromNs(5), {1, 2}, SimTime::FromNs(6));
  writer.Counter(1, "queue", SimTime::FromNs(5), 2);
  writer.Counter(1, "queue", SimTime::FromNs(6), 0);
  ASSERT_TRUE(writer.Close().ok());
  const perfetto_wire::Trace trace = Parsed(path);
  EXPECT_THAT(Events(trace), ElementsAre("B k@stream 5", "s1 launch@stream 5", "f1 launch@stream 6",
                                         "C 2@queue 5", "C 0@queue 6", "E @stream 9"));
  const auto& process = trace.packet(1).track_descriptor();
  EXPECT_EQ(process.process().legacy_sort_index(), 7);
  EXPECT_THAT(process.process().process_labels(), ElementsAre("H100"));
  EXPECT_EQ(trace.packet(2).track_descriptor().thread().tid(), 2);
  for (const auto& packet : trace.packet()) {
    const auto& track = packet.track_descriptor();
    if (track.has_counter()) {
      EXPECT_EQ(track.parent_uuid(), process.uuid());
    }
    if (packet.track_event().legacy_event().phase() == 'f') {
      EXPECT_TRUE(packet.track_event().legacy_event().bind_to_enclosing());
    }
  }
}

TEST(PerfettoWriter, TextsAreWrittenOnceAndAreUtf8) {
  const std::string path = TempPath("texts.pftrace");
  PerfettoWriter writer(path);
  writer.Process(1, "p", "", 0);
  writer.Thread({1, 1}, "t", 0);
  const TimelineArg args[] = {{"group", "gemm"}, {"rank", 3}};
  for (int64_t i = 0; i < 3; ++i) {
    writer.Slice({1, 1}, TimelineText("broken \xff"), "kernel", SimTime::FromNs(i),
                 SimTime::FromNs(i + 1), args);
  }
  writer.Metadata("note 1", "a \"b\"");
  ASSERT_TRUE(writer.Close().ok());
  const perfetto_wire::Trace trace = Parsed(path);
  int names = 0, keys = 0, categories = 0, slices = 0;
  std::string metadata;
  for (const auto& packet : trace.packet()) {
    names += packet.interned_data().event_names_size();
    keys += packet.interned_data().debug_annotation_names_size();
    categories += packet.interned_data().event_categories_size();
    for (const auto& text : packet.interned_data().event_names()) {
      EXPECT_EQ(text.name(), "broken ?");
    }
    for (const auto& entry : packet.chrome_events().metadata()) {
      metadata += entry.name() + "=" + entry.string_value() + ";";
    }
    if (packet.track_event().type() != TrackEvent::TYPE_SLICE_BEGIN) continue;
    ++slices;
    ASSERT_EQ(packet.track_event().debug_annotations_size(), 2);
    EXPECT_EQ(packet.track_event().debug_annotations(0).string_value(), "gemm");
    EXPECT_EQ(packet.track_event().debug_annotations(1).int_value(), 3);
  }
  EXPECT_EQ(slices, 3);
  EXPECT_EQ(names, 1);
  EXPECT_EQ(categories, 1);
  EXPECT_EQ(keys, 2);
  EXPECT_EQ(metadata, "foretrace_timeline=1;note 1=a \"b\";");
}

TEST(PerfettoWriter, TheNameChoosesTheForm) {
  for (const char* name : {"x.pftrace", "x.pftrace.gz"}) EXPECT_TRUE(IsPerfettoName(name)) << name;
  for (const char* name : {"x.json", "x.json.gz", "pftrace", "x.pftrace.json"}) {
    EXPECT_FALSE(IsPerfettoName(name)) << name;
  }
  const absl::Status status = MakeTimelineWriter("/nonexistent-folder/t.pftrace")->Close();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("t.pftrace"), testing::HasSubstr("No such file")));
}

}  // namespace
}  // namespace foretrace
