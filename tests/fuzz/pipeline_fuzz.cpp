// Ranks of one job, in any format, which zero bytes part, through everything that predict does.
// What comes before the first zero byte decides the options.
#include "tests/support/json_mutation.h"
#include "tests/support/whole_pipe.h"

namespace {

using foretrace::Importer;

std::vector<std::string> Parts(std::string_view bytes) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= bytes.size() && parts.size() < 9;) {
    const size_t end = std::min(bytes.find('\0', begin), bytes.size());
    parts.emplace_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Three of four times a mistake in one rank's JSON, which leaves something to predict.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  foretrace::Random random(seed);
  if (foretrace::Below(random, 4) == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> parts = Parts({reinterpret_cast<const char*>(data), size});
  foretrace::Mutate(random, parts[foretrace::Below(random, parts.size())]);
  std::string joined = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) joined += '\0' + parts[i];
  joined.resize(std::min(joined.size(), max_size));
  std::copy(joined.begin(), joined.end(), data);
  return joined.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kineto = foretrace::MakeKinetoImporter();
  static const auto pytorch_et = foretrace::MakePytorchEtImporter();
  std::vector<std::string> parts = Parts({reinterpret_cast<const char*>(data), size});
  foretrace::Drawn drawn(parts[0]);
  const foretrace::PipeOptions options = foretrace::DrawnOptions(drawn);
  parts.erase(parts.begin());
  if (parts.empty()) return 0;
  const bool graph = pytorch_et->Sniff(std::string_view(parts[0]).substr(0, 65536), "rank");
  (void)foretrace::RunWholePipe(graph ? *pytorch_et : *kineto, parts, options);
  return 0;
}
