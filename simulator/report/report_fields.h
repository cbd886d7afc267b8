#pragma once
// How the members of a report's document are written: times in microseconds, null for what is not
// known.

#include <array>
#include <cstdint>
#include <string_view>

#include "simulator/base/json_writer.h"
#include "simulator/base/time.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class ReportFields {
 protected:
  ReportFields(const TraceStore& store, JsonWriter& json) : store_(store), json_(json) {}

  void Key(std::string_view key) { json_.Key(key); }
  void Text(std::string_view text) { json_.String(text); }
  void Int(std::string_view key, int64_t value) { Key(key), json_.Int64(value); }
  void Number(std::string_view key, double value) { Key(key), json_.Double(value); }
  void Time(std::string_view key, SimTime time) { Number(key, time.us()); }
  void String(std::string_view key, std::string_view text) { Key(key), Text(text); }
  void Rank(std::string_view key, RankIndex rank) { Int(key, store_.ranks()[rank].info().rank); }
  void Lane(std::string_view key, RankIndex rank, LaneIndex lane) {
    Key(key);
    lane.valid() ? Text(store_.ranks()[rank].lane_at(lane).label) : static_cast<void>(json_.Null());
  }
  void Recorded(SimTime time) {
    Key("recorded_iteration_time_us");
    time > SimTime() ? json_.Double(time.us()) : json_.Null();
  }
  template <typename Body>
  void Object(Body body) {
    json_.StartObject();
    body();
    json_.EndObject();
  }
  template <typename Range, typename Item>
  void List(std::string_view key, const Range& range, Item item) {
    Key(key);
    json_.StartArray();
    for (const auto& element : range) item(element);
    json_.EndArray();
  }
  // {name: time} of what is not zero, from an array by enumerator.
  template <typename Enum, size_t N>
  void Times(std::string_view key, const std::array<SimTime, N>& times) {
    Key(key);
    Object([&] {
      for (size_t i = 0; i < N; ++i) {
        if (times[i] != SimTime()) Time(Name(static_cast<Enum>(i)), times[i]);
      }
    });
  }

  // Null where zero: not known.
  void Known(std::string_view key, SimTime time) {
    Key(key);
    time > SimTime() ? json_.Double(time.us()) : json_.Null();
  }

  const TraceStore& store_;
  JsonWriter& json_;
};

}  // namespace foretrace
