#include "simulator/importers/importer.h"

namespace foretrace {

std::vector<std::unique_ptr<Importer>> AllImporters() {
  std::vector<std::unique_ptr<Importer>> importers;
  importers.push_back(MakeKinetoImporter());
  return importers;
}

}  // namespace foretrace
