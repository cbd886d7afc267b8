#include "simulator/importers/memory_snapshot/memory_snapshot.h"

#include <gmock/gmock.h>

#include "simulator/importers/memory_snapshot/pickle_reader.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

std::string Data(const std::string& name) {
  return std::string(FORETRACE_SOURCE_DIR) + "/tests/data/memory/" + name;
}

// What tests/data/memory/make_snapshot.py says of it.
TEST(MemorySnapshot, PeakIsWhereMostWasAllocated) {
  const auto devices = ReadMemorySnapshot(Data("snapshot.pickle"));
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 1u);
  const DeviceSnapshot& d = devices->front();
  EXPECT_EQ(d.allocated.count(), 12 << 20);
  EXPECT_EQ(d.reserved.count(), 24 << 20);
  EXPECT_EQ(d.peak.count(), 20 << 20);
  EXPECT_EQ(d.peak_reserved.count(), 24 << 20);
  EXPECT_NEAR(d.fragmentation(), 4.0 / 24, 1e-9);
  EXPECT_EQ(d.peak_at.us(), 250);
  EXPECT_EQ(d.free.count(), 12 << 20);
  EXPECT_EQ(d.largest_free.count(), 10 << 20);
  ASSERT_EQ(d.holders.size(), 3u);
  EXPECT_EQ(d.holders[0].line, "train.py:41 forward");
  EXPECT_EQ(d.holders[0].bytes.count(), 10 << 20);
  EXPECT_EQ(d.holders[1].line, "train.py:42 forward");
  EXPECT_EQ(d.holders[2].line, "train.py:10 build");
  EXPECT_EQ(d.holders[2].bytes.count(), 4 << 20);
  EXPECT_EQ(d.ledger.weights.count(), 4 << 20);
  EXPECT_EQ(d.ledger.activations.count(), 16 << 20);
  EXPECT_EQ(d.ledger.total(), d.peak);
}

TEST(MemorySnapshot, WhatWouldBeCalledIsRefused) {
  const auto devices = ReadMemorySnapshot(Data("hostile.pickle"));
  ASSERT_FALSE(devices.ok());
  EXPECT_THAT(devices.status().message(), HasSubstr("STACK_GLOBAL, which imports"));
}

TEST(Pickle, ReadsWhatPythonWrites) {
  // pickle.dumps([-3, 70000, -2**40, 2**63 + 1, 1.5, None, True, "a", ("b", {})], protocol=4)
  const char bytes[] =
      "\x80\x04\x95\x38\x00\x00\x00\x00\x00\x00\x00]\x94(J\xfd\xff\xff\xffJp\x11\x01\x00\x8a\x06"
      "\x00\x00\x00\x00\x00\xff\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x80\x00G?\xf8\x00\x00\x00\x00"
      "\x00\x00N\x88\x8c\x01"
      "a\x94\x8c\x01"
      "b\x94}\x94\x86\x94"
      "e.";
  const auto pickle = Pickle::Read({bytes, sizeof(bytes) - 1}, "test");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const auto& items = pickle->root().list();
  ASSERT_EQ(items.size(), 9u);
  EXPECT_EQ(std::get<int64_t>(items[0]->value), -3);
  EXPECT_EQ(std::get<int64_t>(items[1]->value), 70000);
  EXPECT_EQ(std::get<int64_t>(items[2]->value), -(int64_t{1} << 40));
  EXPECT_EQ(static_cast<uint64_t>(std::get<int64_t>(items[3]->value)), (uint64_t{1} << 63) + 1);
  EXPECT_EQ(std::get<double>(items[4]->value), 1.5);
  EXPECT_EQ(std::get<bool>(items[6]->value), true);
  EXPECT_EQ(items[8]->list().size(), 2u);
}

TEST(Pickle, EveryPrefixIsRefused) {
  const std::string whole(
      "\x80\x04\x8c\x01"
      "a\x94\x8c\x01"
      "b\x94\x86\x94.",
      13);
  ASSERT_TRUE(Pickle::Read(whole, "test").ok());
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(Pickle::Read(std::string_view(whole).substr(0, n), "test").ok()) << n;
  }
  EXPECT_FALSE(Pickle::Read(std::string("\x80\x04t.", 4), "test").ok());
  EXPECT_FALSE(Pickle::Read(std::string("\x80\x04h\x05.", 5), "test").ok());
}

}  // namespace
}  // namespace foretrace
