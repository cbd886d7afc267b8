#include "simulator/importers/chakra/wire.h"

#include <gtest/gtest.h>

#include <string>

namespace foretrace::chakra {
namespace {

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Of every length, at the end of a message and with other bytes behind it.
TEST(WireReader, ReadsVarintsOfEveryLength) {
  for (int bits = 0; bits <= 64; ++bits) {
    const uint64_t top = bits == 0 ? 0 : ~uint64_t{0} >> (64 - bits);
    for (const uint64_t value : {top, top ^ (top >> 1), top & uint64_t{0x5a5a5a5a5a5a5a5a}}) {
      for (const std::string& behind :
           {std::string(), std::string("\xff", 1), std::string(12, '\xff')}) {
        const std::string text = Varint(value) + behind;
        WireReader reader(text);
        uint64_t read = 0;
        ASSERT_TRUE(reader.ReadVarint(read)) << value;
        EXPECT_EQ(read, value);
        EXPECT_EQ(reader.position(), text.size() - behind.size());
      }
    }
  }
}

TEST(WireReader, RefusesVarintsThatDoNotEndOrAreTooLong) {
  uint64_t value = 0;
  for (size_t size = 1; size <= 20; ++size) {
    const std::string open(size, '\x80');
    EXPECT_FALSE(WireReader(open).ReadVarint(value)) << size;
  }
  EXPECT_FALSE(WireReader(std::string(9, '\xff') + '\x02').ReadVarint(value));
  EXPECT_TRUE(WireReader(std::string(9, '\xff') + '\x01').ReadVarint(value));
  EXPECT_EQ(value, ~uint64_t{0});
}

// Field 1 and field 100; lengths of one, two and three bytes.
TEST(WireReader, ReadsFieldsOfEverySize) {
  for (const size_t size : {0u, 1u, 127u, 128u, 5'000u, 20'000u}) {
    for (const uint32_t number : {1u, 15u, 16u, 100u}) {
      const std::string text = Varint(number << 3 | 2) + Varint(size) + std::string(size, 'x') +
                               Varint(number << 3) + Varint(size);
      WireReader reader(text);
      WireField field;
      ASSERT_TRUE(reader.Next(field));
      EXPECT_EQ(field.number, number);
      EXPECT_EQ(field.bytes, std::string(size, 'x'));
      ASSERT_TRUE(reader.Next(field));
      EXPECT_EQ(field.type, WireType::kVarint);
      EXPECT_EQ(field.value, size);
      EXPECT_FALSE(reader.Next(field));
      EXPECT_TRUE(reader.ok());
      // Every shorter text is malformed, unless it ends between the fields.
      const size_t first = Varint(number << 3 | 2).size() + Varint(size).size() + size;
      for (const size_t cut : {size_t{1}, first - 1, first + 1, text.size() - 1}) {
        if (cut == 0 || cut == first || cut >= text.size()) continue;
        WireReader shorter(std::string_view(text).substr(0, cut));
        while (shorter.Next(field)) {
        }
        EXPECT_FALSE(shorter.ok()) << size << " " << number << " " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace foretrace::chakra
