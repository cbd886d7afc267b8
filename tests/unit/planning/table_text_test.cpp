#include "simulator/planning/files/table_text.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

// Spreadsheets begin a CSV file in UTF-8 with one, which is no part of the first column's name.
TEST(TableText, NoByteOrderMark) {
  const TempFolder folder;
  const std::string path = folder.path() + "/table.csv";
  std::ofstream(path) << "\xEF\xBB\xBF"
                      << "gemm_dtype,n\r\nbfloat16,1\r\n";
  const auto text = ReadTableText(path);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "gemm_dtype,n\r\nbfloat16,1\r\n");
}

}  // namespace
}  // namespace foretrace
