#include "simulator/planning/mappings/profile_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/yaml.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

// HARDWARE_MODEL_tpN.
struct ProfileName {
  std::string folder, hardware, model;
  int32_t tensor = 1;
};

std::optional<ProfileName> Parse(const std::string& folder) {
  ProfileName name;
  name.folder = folder;
  const size_t first = folder.find('_'), last = folder.rfind("_tp");
  if (first == std::string::npos) return std::nullopt;
  name.hardware = folder.substr(0, first);
  if (last == std::string::npos || last <= first) {
    name.model = folder.substr(first + 1);
    return name;
  }
  const char* end = folder.data() + folder.size();
  const auto [at, code] = std::from_chars(folder.data() + last + 3, end, name.tensor);
  if (code != std::errc() || at != end) return std::nullopt;
  name.model = folder.substr(first + 1, last - first - 1);
  return name;
}

std::vector<ProfileName> ListProfiles(const fs::path& root) {
  std::vector<ProfileName> all;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    if (!fs::exists(entry.path() / "dense.csv", error)) continue;
    if (const auto name = Parse(entry.path().filename().string())) all.push_back(*name);
  }
  std::sort(all.begin(), all.end(),
            [](const ProfileName& a, const ProfileName& b) { return a.folder < b.folder; });
  return all;
}

// A key of HARDWARE_MODEL.meta.yaml, which the profiler writes; empty: not stated.
std::string StatedByProfiler(const fs::path& root, const ProfileName& name, const char* key) {
  const fs::path file = root / (name.hardware + "_" + name.model + ".meta.yaml");
  std::error_code error;
  if (!fs::exists(file, error)) return "";
  const auto text = ReadTextFile(file.string(), kMaxYamlBytes);
  if (!text.ok()) return "";
  const auto node = ParseYaml(*text, file.string());
  if (!node.ok() || !node->IsMap() || !(*node)[key].IsDefined() || !(*node)[key].IsScalar()) {
    return "";
  }
  return (*node)[key].Scalar();
}

std::string FolderName(const std::string& path) {
  const fs::path folder = fs::absolute(fs::path(path)).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

// Releases that were trained further, whose layers have the same sizes.
bool IsTuningOf(const std::string& model, const std::string& base) {
  const std::string tuned = PlainModelName(model), plain = PlainModelName(base);
  static constexpr std::array<std::string_view, 4> kTunings = {"instruct", "chat", "it", "base"};
  const auto is = [](const std::string& longer, const std::string& shorter) {
    const std::string_view rest = std::string_view(longer).substr(
        longer.starts_with(shorter) ? shorter.size() : longer.size());
    // "instruct2507": with the month of the release.
    return std::any_of(kTunings.begin(), kTunings.end(), [&](std::string_view word) {
      return rest.starts_with(word) &&
             rest.find_first_not_of("0123456789", word.size()) == std::string_view::npos;
    });
  };
  return is(tuned, plain) || is(plain, tuned);
}

std::string Names(const std::vector<ProfileName>& profiles) {
  std::string text;
  for (const ProfileName& p : profiles) text += (text.empty() ? "" : ", ") + p.folder;
  return text.empty() ? "none" : text;
}

}  // namespace

std::string PlainModelName(const std::string& name) {
  std::string plain;
  for (const char c : name.substr(name.rfind('/') + 1)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

absl::StatusOr<std::string> FindProfileFolder(const std::string& root, serve::MeasuredRun& run) {
  std::error_code error;
  if (fs::exists(fs::path(root) / "dense.csv", error)) return root;
  const std::vector<ProfileName> all = ListProfiles(root);
  std::vector<ProfileName> fitting;
  for (const ProfileName& p : all) {
    if (p.tensor != run.tensor_parallel) continue;
    if (PlainModelName(p.model) == PlainModelName(run.model)) fitting.push_back(p);
  }
  const bool tuned = fitting.empty();
  for (const ProfileName& p : all) {
    if (tuned && p.tensor == run.tensor_parallel && IsTuningOf(run.model, p.model)) {
      fitting.push_back(p);
    }
  }
  const std::string plain_run = PlainModelName(FolderName(run.folder));
  const auto is_device = [&](const ProfileName& p) {
    const std::string gpu = StatedByProfiler(root, p, "gpu");
    if (!run.device.empty() && !gpu.empty()) {
      return PlainModelName(gpu) == PlainModelName(run.device);
    }
    return plain_run.starts_with(PlainModelName(p.hardware));
  };
  const auto take = [&](const ProfileName& p) {
    if (run.device.empty()) run.device = StatedByProfiler(root, p, "gpu");
    if (tuned) {
      run.notes.push_back(fmt::format("{} is taken to have the layers of {}", run.model, p.model));
    }
    return (fs::path(root) / p.folder).string();
  };
  for (const ProfileName& p : fitting) {
    if (is_device(p)) return take(p);
  }
  if (fitting.size() == 1 && run.device.empty()) {
    run.notes.push_back(fmt::format("the run names no device that a profile is of: {} is taken",
                                    fitting.front().folder));
    return take(fitting.front());
  }
  return InvalidInput(
      "{}: no layer profile of {} with tensor parallelism {} on '{}' (folders HARDWARE_MODEL_tpN "
      "with dense.csv; there are {}): name the folder with --profiles",
      root, run.model, run.tensor_parallel,
      run.device.empty() ? FolderName(run.folder) : run.device, Names(all));
}

std::vector<std::string> ProfileNotes(const std::string& profile_folder,
                                      const serve::MeasuredRun& run) {
  std::vector<std::string> notes;
  const fs::path folder = fs::path(profile_folder).lexically_normal();
  const auto name = Parse(FolderName(profile_folder));
  if (!name) return notes;
  const fs::path root =
      folder.has_filename() ? folder.parent_path() : folder.parent_path().parent_path();
  const std::string release = StatedByProfiler(root, *name, "vllm_version");
  if (!release.empty() && release != run.release) {
    notes.push_back(fmt::format("the layers were measured with release {}, the run is of {}",
                                release, run.release));
  }
  const std::string gpu = StatedByProfiler(root, *name, "gpu");
  if (!gpu.empty() && !run.device.empty() && PlainModelName(gpu) != PlainModelName(run.device)) {
    notes.push_back(
        fmt::format("the layers were measured on {}, the run is of {}", gpu, run.device));
  }
  const std::string variant = StatedByProfiler(root, *name, "variant");
  if (run.engine.kv_cache_width > 0 && variant.find("fp8") == std::string::npos) {
    notes.push_back(
        fmt::format("attention was measured over keys and values {}, the run has them in 8 bits",
                    variant.empty() ? "of another precision" : "of " + variant));
  }
  return notes;
}

}  // namespace foretrace
