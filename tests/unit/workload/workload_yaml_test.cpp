#include "simulator/workload/workload_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace foretrace {
namespace {

absl::StatusOr<ModelFile> Published(const std::string& when) {
  return ParseModel("name: a\npublished: " + when +
                        "\ntransformer: {hidden: 64, layers: 2, heads: 4, vocabulary: 100, "
                        "sequence: 16}\n",
                    "a.yaml");
}

TEST(WorkloadYamlTest, PublishedInAYearOrAMonth) {
  for (const std::string when : {"1999", "2024", "2025-01", "2025-12"}) {
    const auto model = Published(when);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->published, when);
  }
  for (const std::string when :
       {"25", "2025-13", "2025-4", "2025-04-08", "spring", "[2025]", "1890"}) {
    EXPECT_THAT(std::string(Published(when).status().message()),
                testing::HasSubstr("a.yaml: 'published' is no year or month (2025, 2025-04)"))
        << when;
  }
}

}  // namespace
}  // namespace foretrace
