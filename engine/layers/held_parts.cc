#include "engine/layers/held_parts.h"

#include <algorithm>

namespace tessera::engine {
namespace {

// One part for each parameter and owned range that meet.
template <typename ArrayAt>
std::vector<HeldPart> OwnedParts(const ParameterStore& store, const ArrayAt& array_at) {
  std::vector<HeldPart> parts;
  for (size_t i = 0; i < store.parameters().size(); ++i) {
    const spec::FlatParameter& place = store.layout().parameters[i];
    for (const spec::OwnedRange& range : store.owned()) {
      const int64_t begin = std::max(range.offset, place.offset);
      const int64_t end =
          std::min(range.offset + range.num_elements, place.offset + place.num_elements);
      if (begin >= end) continue;
      parts.push_back({.parameter = i,
                       .first = begin - place.offset,
                       .count = end - begin,
                       .data = array_at(range, begin - range.offset)});
    }
  }
  return parts;
}

}  // namespace

std::vector<HeldPart> HeldWeights(const ParameterStore& store) {
  if (store.keeps_owned_weights()) {
    return OwnedParts(store, [&](const spec::OwnedRange& range, int64_t element) {
      return store.OwnWeights(range, element);
    });
  }
  std::vector<HeldPart> parts;
  for (size_t i = 0; i < store.parameters().size(); ++i) {
    const spec::FlatParameter& place = store.layout().parameters[i];
    parts.push_back(
        {.parameter = i, .count = place.num_elements, .data = store.weights().At(place.offset)});
  }
  return parts;
}

std::vector<HeldPart> HeldGradients(const ParameterStore& store) {
  return OwnedParts(store, [&](const spec::OwnedRange& range, int64_t element) {
    return store.OwnGradients(range, element);
  });
}

}  // namespace tessera::engine
