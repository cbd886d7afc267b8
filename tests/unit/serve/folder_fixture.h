#pragma once
// Files of one test.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_folder.h"

namespace foretrace::serve {

class Folder : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    return folder_.Write(name, text);
  }
  const TempFolder folder_;
  const std::string path_ = folder_.path();
};

}  // namespace foretrace::serve
