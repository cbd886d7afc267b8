#include "simulator/base/diagnostics.h"

#include <gtest/gtest.h>

#include <string>

namespace foretrace {
namespace {

TEST(Diagnostics, AskWhereOnceOfEachKind) {
  Diagnostics found;
  int asked = 0;
  const auto where = [&] { return "place " + std::to_string(++asked); };
  for (int i = 0; i < 3; ++i) found.Add(Repair::kSelfDependency, where);
  found.Add(Repair::kDanglingDependency, where, 5);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(found.Count(Repair::kSelfDependency), 3);
  EXPECT_EQ(found.Count(Repair::kDanglingDependency), 5);
  EXPECT_EQ(found.Count(Repair::kMissingLaunch), 0);
  EXPECT_EQ(found.AsStrictError().message(),
            "--strict: the input needs repairs: dangling_dependency (5, first: place 2); "
            "self_dependency (3, first: place 1)");
}

TEST(Diagnostics, MergedKeepTheFirst) {
  Diagnostics a, b;
  a.Add(Repair::kMissingLaunch, "a");
  b.Add(Repair::kMissingLaunch, "b", 2);
  a.Merge(b);
  EXPECT_EQ(a.entries().at(Repair::kMissingLaunch).count, 3);
  EXPECT_EQ(a.entries().at(Repair::kMissingLaunch).first, "a");
}

TEST(Diagnostics, EveryKindHasANameAndWhatItDoes) {
  for (int i = 0; i < static_cast<int>(Repair::kCount); ++i) {
    const RepairKind& kind = KindOf(static_cast<Repair>(i));
    EXPECT_FALSE(kind.name.empty());
    EXPECT_FALSE(Name(kind.severity).empty());
  }
}

}  // namespace
}  // namespace foretrace
