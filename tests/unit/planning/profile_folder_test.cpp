#include "simulator/planning/mappings/profile_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

class ProfileFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"A100_Llama-3.1-8B_tp1", "A100_Llama-3.1-8B_tp2",
                             "RTX4090_Llama-3.1-8B_tp1", "RTX4090_Qwen3-32B_tp1", "other"}) {
      std::filesystem::create_directories(root_ + "/" + name);
      std::ofstream(root_ + "/" + name + "/dense.csv") << "layer,tokens,time_us\n";
    }
    std::ofstream(root_ + "/RTX4090_Llama-3.1-8B.meta.yaml")
        << "gpu: NVIDIA GeForce RTX 4090\nvllm_version: 0.19.0\n";
    run_.model = "meta-llama/Llama-3.1-8B";
    run_.release = "0.19.0";
  }

  std::string Found() {
    const auto folder = FindProfileFolder(root_, run_);
    return folder.ok() ? std::filesystem::path(*folder).filename().string()
                       : std::string(folder.status().message());
  }

  const TempFolder folder_;
  const std::string root_ = folder_.path();
  serve::MeasuredRun run_;
};

TEST_F(ProfileFolder, ByTheDeviceThatTheRunStates) {
  run_.folder = "anything";
  run_.device = "NVIDIA GeForce RTX 4090";
  EXPECT_EQ(Found(), "RTX4090_Llama-3.1-8B_tp1");
}

TEST_F(ProfileFolder, ByTheNameOfTheRunsFolder) {
  run_.folder = "runs/A100_whatever";
  run_.tensor_parallel = 2;
  EXPECT_EQ(Found(), "A100_Llama-3.1-8B_tp2");
  run_.folder = "runs/RTX4090_Qwen3-32B/";
  run_.model = "Qwen/Qwen3-32B";
  run_.tensor_parallel = 1;
  EXPECT_EQ(Found(), "RTX4090_Qwen3-32B_tp1");
  EXPECT_TRUE(run_.notes.empty());
}

TEST_F(ProfileFolder, ATuningHasTheLayersOfItsModel) {
  run_.folder = "runs/A100_x";
  run_.model = "meta-llama/Llama-3.1-8B-Instruct";
  EXPECT_EQ(Found(), "A100_Llama-3.1-8B_tp1");
  ASSERT_EQ(run_.notes.size(), 1);
  run_.model = "org/Llama-3.1-8B-Instruct-2507";
  EXPECT_EQ(Found(), "A100_Llama-3.1-8B_tp1");
  run_.model = "org/Llama-3.1-8B-Vision";
  EXPECT_NE(Found().find("no layer profile"), std::string::npos);
}

TEST_F(ProfileFolder, TheOnlyOneIsTakenAndTold) {
  run_.folder = "runs/monday";
  run_.tensor_parallel = 2;
  EXPECT_EQ(Found(), "A100_Llama-3.1-8B_tp2");
  EXPECT_EQ(run_.notes.size(), 1);
  run_.tensor_parallel = 1;  // two devices, nothing to choose by
  EXPECT_NE(Found().find("there are A100_Llama-3.1-8B_tp1"), std::string::npos);
  run_.tensor_parallel = 4;
  EXPECT_NE(Found().find("tensor parallelism 4"), std::string::npos);
}

TEST_F(ProfileFolder, AnotherReleaseOrDeviceIsTold) {
  const std::string folder = root_ + "/RTX4090_Llama-3.1-8B_tp1";
  run_.device = "NVIDIA GeForce RTX 4090";
  EXPECT_TRUE(ProfileNotes(folder, run_).empty());
  run_.release = "0.21.0";
  run_.device = "NVIDIA L40S";
  const auto notes = ProfileNotes(folder + "/", run_);
  ASSERT_EQ(notes.size(), 2);
  EXPECT_NE(notes[0].find("release 0.19.0"), std::string::npos);
  EXPECT_NE(notes[1].find("run is of NVIDIA L40S"), std::string::npos);
  EXPECT_TRUE(ProfileNotes(root_ + "/A100_Llama-3.1-8B_tp1", run_).empty());
}

}  // namespace
}  // namespace foretrace
