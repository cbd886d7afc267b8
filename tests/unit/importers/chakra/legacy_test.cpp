// Chakra v0.0.1 to v0.0.3. Their schemas are not in the project: messages are written by hand here,
// after the field numbers of each version's et_def.proto.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "simulator/importers/importer.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}
std::string Int(uint32_t field, uint64_t value) { return Varint(field << 3) + Varint(value); }
std::string Text(uint32_t field, const std::string& text) {
  return Varint(field << 3 | 2) + Varint(text.size()) + text;
}
std::string File(std::initializer_list<std::string> messages) {
  std::string out;
  for (const std::string& message : messages) out += Varint(message.size()) + message;
  return out;
}
std::string Head(uint64_t id, uint64_t type) {
  return Int(1, id) + Text(2, "node" + std::to_string(id)) + Int(3, type);
}

absl::StatusOr<RankTraceBuilder::Result> ImportBytes(const std::string& bytes) {
  const auto importer = MakeChakraImporter();
  EXPECT_TRUE(importer->Sniff(bytes, "x"));
  auto input = MakeMemorySource("old.0.et", bytes);
  auto file = importer->Import(*input, "old.0.et", ImportOptions());
  if (!file.ok()) return file.status();
  return file->builder->Build(file->build_options);
}

TEST(ChakraLegacy, Version001HasFlatFields) {
  const std::string comp = Head(1, 3) + Int(6, 64) + Int(7, 12) + Int(12, 1000);
  const std::string coll = Head(2, 6) + Int(4, 1) + Int(13, 2) + Int(15, 3) + Int(18, 4096);
  const std::string send = Head(3, 4) + Int(17, 5) + Int(18, 10) + Int(19, 7);
  const auto result = ImportBytes(File({comp, coll, send}));
  ASSERT_TRUE(result.ok()) << result.status();
  const RankTrace& t = result->trace;
  EXPECT_EQ(t.info().producer, "chakra 0.0.1");
  EXPECT_EQ(t.kind(NodeIndex(0)), NodeKind::kKernel);
  EXPECT_EQ(t.duration(NodeIndex(0)), SimTime::FromNs(12'000));
  EXPECT_EQ(t.work(NodeIndex(0))->flop.count(), 1000);
  // ALL_TO_ALL is 2 here.
  EXPECT_EQ(t.collective_op(NodeIndex(1)), CollectiveOp::kAllToAll);
  EXPECT_EQ(t.comm(NodeIndex(1))->bytes_in.count(), 4096);
  EXPECT_EQ(result->strings->Get(t.comm(NodeIndex(1))->group), "3");
  ASSERT_EQ(t.dependencies(NodeIndex(1)).size(), 1u);
  EXPECT_EQ(t.kind(NodeIndex(2)), NodeKind::kSend);
  EXPECT_EQ(t.comm(NodeIndex(2))->peer, 5);
  EXPECT_EQ(t.comm(NodeIndex(2))->tag, 7);
  EXPECT_EQ(result->diagnostics.Count(Repair::kAssumedMicroseconds), 1);
}

// AttributeProto of v0.0.2: type INT is 1, i is field 5.
std::string Attribute002(const std::string& name, uint64_t value) {
  return Text(11, Text(1, name) + Int(2, 1) + Int(5, value));
}

TEST(ChakraLegacy, Version002HasAttributes) {
  const std::string coll =
      Head(1, 6) + Attribute002("comm_type", 3) + Attribute002("comm_size", 64);
  const auto result = ImportBytes(File({coll}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trace.info().producer, "chakra 0.0.2");
  EXPECT_EQ(result->trace.kind(NodeIndex(0)), NodeKind::kCollective);
  // REDUCE_SCATTER is 3 here.
  EXPECT_EQ(result->trace.collective_op(NodeIndex(0)), CollectiveOp::kReduceScatter);
  EXPECT_EQ(result->trace.comm(NodeIndex(0))->bytes_in.count(), 64);
}

TEST(ChakraLegacy, Version003HasMetadata) {
  // INT is 3 and i field 7; STRING is 4 and s field 8; METADATA_NODE moved the others up by one.
  const std::string metadata = Text(1, Text(1, "schema") + Int(2, 4) + Text(8, "1.0.1"));
  const auto attribute = [](const std::string& name, uint64_t value) {
    return Text(11, Text(1, name) + Int(2, 3) + Int(7, value));
  };
  const std::string comp = Head(1, 4) + attribute("runtime", 9);
  const std::string coll = Head(2, 7) + attribute("comm_type", 1) + attribute("comm_size", 8) +
                           Text(11, Text(1, "pg_name") + Int(2, 4) + Text(8, "5"));
  const auto result = ImportBytes(File({metadata, comp, coll}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trace.info().producer, "chakra 0.0.3");
  EXPECT_EQ(result->trace.duration(NodeIndex(0)), SimTime::FromNs(9000));
  // ALL_TO_ALL is 1 here.
  EXPECT_EQ(result->trace.collective_op(NodeIndex(1)), CollectiveOp::kAllToAll);
  EXPECT_EQ(result->strings->Get(result->trace.comm(NodeIndex(1))->group), "5");
}

void ExpectRefusal(const std::string& bytes, const std::string& what) {
  const auto result = ImportBytes(bytes);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("old.0.et"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(what));
}

TEST(ChakraLegacy, RefusesWhatItCannotTell) {
  ExpectRefusal(File({Head(1, 3), Head(2, 3)}), "Chakra v0.0.1 to v0.0.3");
  ExpectRefusal(File({Head(1, 3) + Int(12, 5), Head(2, 6) + Attribute002("comm_size", 1)}),
                "of Chakra v0.0.2, earlier ones of v0.0.1");
  ExpectRefusal(File({Head(1, 3) + Int(25, 5)}), "unsupported schema: field 25");
  ExpectRefusal(File({Head(1, 9) + Attribute002("comm_size", 1)}), "unknown node type 9");
}

}  // namespace
}  // namespace foretrace
