#include "simulator/importers/importer.h"

namespace foretrace {

// Formats with a mark in their content come first; Chakra files have none.
std::vector<std::unique_ptr<Importer>> AllImporters() {
  std::vector<std::unique_ptr<Importer>> importers;
  importers.push_back(MakeKinetoImporter());
  importers.push_back(MakePytorchEtImporter());
  importers.push_back(MakeChakraJsonImporter());
  importers.push_back(MakeChakraImporter());
  return importers;
}

}  // namespace foretrace
