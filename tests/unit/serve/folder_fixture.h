#pragma once
// Files of one test.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace foretrace::serve {

class Folder : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(path_); }
  void TearDown() override { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(path_ + "/" + name) << text;
    return path_ + "/" + name;
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / "foretrace_serving_test").string();
};

}  // namespace foretrace::serve
