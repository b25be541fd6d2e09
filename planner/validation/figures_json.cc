#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/strict_json.h"
#include "planner/validation/figures.h"

namespace tessera::planner {
namespace {

void VisitLimit(spec::FieldVisitor& fields, const std::string& key, std::optional<double>& limit) {
  if (fields.Present(key, limit.has_value())) fields.Number(key, limit.emplace(), {});
}

}  // namespace

std::vector<FigureBound> ReadFigureBounds(const std::string& path) {
  std::vector<FigureBound> bounds;
  const nlohmann::json document = spec::ReadJsonFile(path);
  spec::FieldReader::Read(document, path, [&](spec::FieldVisitor& fields) {
    fields.Remark("source");
    fields.Objects(
        "bounds", 0, [&](std::size_t size) { bounds.resize(size); },
        [&](spec::FieldVisitor& bound, std::size_t i) {
          bound.Text("figure", bounds[i].figure);
          VisitLimit(bound, "at_most", bounds[i].at_most);
          VisitLimit(bound, "at_least", bounds[i].at_least);
          if (bounds[i].at_most.has_value() == bounds[i].at_least.has_value()) {
            throw base::ConfigError(path, "/bounds/" + std::to_string(i),
                                    bounds[i].at_most ? "both limits" : "no limit",
                                    "at_most or at_least");
          }
        });
  });
  return bounds;
}

}  // namespace tessera::planner
