// Placements that Collage published for ResNet-8 and ResNet-18 (branch artifact-eval): the kernels
// of three runs, each with its measured time. Costs of what it did not choose are not published, so
// that the three runs' kernels together are what there is to choose from.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "simulator/backends/op_placement.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

struct Published {
  std::vector<std::string> types;  // of the operators in order
  std::vector<KernelChoice> kernels;
  SimTime cost;  // with launches
};

// Lines "(tvmgpu_conv2d+bn+relu, 0.094)": backend, operators, ms.
Published Read(const std::string& file) {
  Published run;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with('(') || line.find('_') == std::string::npos) continue;
    const size_t comma = line.find(", ");
    double ms = 0;
    EXPECT_TRUE(absl::SimpleAtod(line.substr(comma + 2, line.find(')') - comma - 2), &ms)) << line;
    KernelChoice kernel;
    const size_t name = line.find('_') + 1;
    kernel.backend = line.starts_with("(cudnn") ? 1 : 0;
    kernel.time = SimTime::FromUs(ms * 1000);
    for (const absl::string_view type : absl::StrSplit(line.substr(name, comma - name), '+')) {
      kernel.ops.push_back(static_cast<int32_t>(run.types.size()));
      run.types.emplace_back(type);
    }
    run.cost += kernel.Alone(kPublishedLaunch);
    run.kernels.push_back(std::move(kernel));
  }
  return run;
}

void Check(const std::string& network, size_t kernels) {
  const std::string head = RealData("collage/dp_result_");
  FORETRACE_SKIP_WITHOUT(head + "both_" + network + ".txt");
  const Published both = Read(head + "both_" + network + ".txt");
  const Published tvm = Read(head + "tvm_" + network + ".txt");
  const Published cudnn = Read(head + "cudnn_" + network + ".txt");
  EXPECT_EQ(both.kernels.size(), kernels);
  std::vector<ViewedOp> ops;
  for (const std::string& type : both.types) {
    const auto id = static_cast<int32_t>(ops.size());
    ops.push_back({type + std::to_string(id), type, {id - 1}, "", {}, {}});
  }
  const OperatorView chain(network, std::move(ops));
  std::vector<KernelChoice> all;
  SimTime before = SimTime::Max();
  // Monotone in what there is to choose from, and never above a run that it could have made.
  for (const Published* run : {&tvm, &cudnn, &both}) {
    ASSERT_EQ(run->types, both.types);
    all.insert(all.end(), run->kernels.begin(), run->kernels.end());
    const auto placed = PlaceOps(chain, all, kPublishedLaunch);
    ASSERT_TRUE(placed.ok()) << placed.status();
    EXPECT_LE(placed->cost, run->cost);
    EXPECT_LE(placed->cost, before);
    before = placed->cost;
  }
}

TEST(PublishedPlacements, OurCostOfResNet8IsAtMostTheirs) { Check("resnet_8", 20); }
TEST(PublishedPlacements, OurCostOfResNet18IsAtMostTheirs) { Check("resnet_18", 42); }

}  // namespace
}  // namespace foretrace
