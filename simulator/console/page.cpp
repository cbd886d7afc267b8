#include "simulator/console/page.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/sha256.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/xml.h"

namespace foretrace {
namespace {

constexpr size_t kLargestPage = size_t{500} << 20;
constexpr int64_t kLargestPart = int64_t{8} << 20;

// A part of every page: of the folder pages/ of foretrace's data, beside this file in a checkout,
// or as Debian packages it.
absl::StatusOr<std::string> Part(std::string_view name, const std::string& packaged) {
  std::vector<std::string> places;
  for (const std::string& folder : DataFolders()) {
    places.push_back(fmt::format("{}/pages/{}", folder, name));
    places.push_back(fmt::format("{}/simulator/console/pages/{}", folder, name));
  }
  if (!packaged.empty()) places.push_back(packaged);
  for (const std::string& place : places) {
    if (access(place.c_str(), R_OK) == 0) return ReadTextFile(place, kLargestPart);
  }
  if (packaged.empty()) {
    return Infeasible("--html: {} is not installed; set FORETRACE_DATA to the folder of pages/",
                      name);
  }
  return Infeasible(
      "--html: pages draw with Chart.js, which is not here: install libjs-chart.js, or put "
      "chart.min.js into {}",
      places.front());
}

// What a content security policy calls a script or style by.
std::string Source(std::string_view text) {
  const auto digest = Sha256(text);
  const std::string bytes(digest.begin(), digest.end());
  return "'sha256-" + absl::Base64Escape(bytes) + "'";
}

// JSON that ends no element: '<' and the like stand within its strings alone.
std::string Embedded(const std::string& json) {
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

absl::Status WritePage(std::string_view command, const std::string& document,
                       const std::string& path) {
  const std::string answer = Embedded(document);
  if (answer.size() > kLargestPage) {
    return Infeasible(
        "{}: the page would pass 500 MB; ask for less (fewer traces or points, a smaller --top)",
        path);
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::string style, Part("page.css", ""));
  FORETRACE_ASSIGN_OR_RETURN(std::string script, Part("page.js", ""));
  for (const char* const part : {"inputs.js", "answers.js"}) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string more, Part(part, ""));
    script += more;
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::string licence, Part("chart.licence", ""));
  FORETRACE_ASSIGN_OR_RETURN(const std::string charts,
                             Part("chart.min.js", "/usr/share/javascript/chart.js/chart.min.js"));
  AtomicFile file(path);
  file.Append(fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {} "
      "{}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\"><title>foretrace {}</title>\n<style>{}</style></head>\n"
      "<body><noscript>This page needs JavaScript, which it brings along.</noscript>\n"
      "<main id=\"page\"></main>\n<script type=\"application/json\" id=\"answer\">",
      Source(charts), Source(script), Source(style), XmlText(command), style));
  file.Append(answer);
  file.Append(fmt::format("</script>\n<!--\n{}\n-->\n<script>", licence));
  file.Append(charts);
  file.Append("</script>\n<script>");
  file.Append(script);
  file.Append("</script></body></html>\n");
  return file.Commit();
}

}  // namespace foretrace
