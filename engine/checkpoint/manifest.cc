#include "engine/checkpoint/manifest.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "cost_model/base/error.h"
#include "cost_model/spec/parameter_list.h"
#include "engine/checkpoint/safetensors_header.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

constexpr std::array<std::string_view, 3> kKindNames = {"weight", "m", "v"};

// Shapes by name, each checked.
std::map<std::string, std::vector<int64_t>> ShapesOf(const Manifest& manifest,
                                                     const std::string& path) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const CheckpointParameter& parameter : manifest.parameters) {
    const std::string key = Concat("parameter '", PrintableName(parameter.name), "'");
    if (parameter.shape.empty() || CheckedNumElements(parameter.shape).value_or(0) < 1) {
      throw ConfigError(path, key, Concat("shape ", ShapeText(parameter.shape)),
                        "positive sizes whose product is below 2^63");
    }
    if (!shapes.emplace(parameter.name, parameter.shape).second) {
      throw ConfigError(path, key, "the name twice", "each name once");
    }
  }
  return shapes;
}

std::string PartText(const TensorPart& part) {
  return Concat("dim ", part.dim, " [", part.begin, ", +", part.size, ") elements [", part.first,
                ", +", part.count, ")");
}

void CheckRange(const Piece& piece, const std::vector<int64_t>& shape, const std::string& path) {
  const TensorPart& part = piece.part;
  const bool dim_fits = part.dim >= 0 && part.dim < static_cast<int>(shape.size());
  const bool slice_fits = dim_fits && part.begin >= 0 && part.size >= 0 &&
                          part.begin <= shape[part.dim] &&
                          part.size <= shape[part.dim] - part.begin;
  const auto range_fits = [&] {
    const int64_t elements = WholeSlice(shape, part.dim, part.begin, part.size, part.size).count;
    return part.first >= 0 && part.count >= 0 && part.first <= elements &&
           part.count <= elements - part.first;
  };
  if (!slice_fits || !range_fits()) {
    throw ConfigError(path, PrintableName(PieceName(piece)), PartText(part),
                      Concat("a part of shape ", ShapeText(shape)));
  }
}

// Slices must follow each other without gap or overlap, and so must the ranges inside each slice.
void CheckTiling(std::vector<const Piece*>& pieces, const std::vector<int64_t>& shape,
                 const std::string& path) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece* a, const Piece* b) {
    return std::tuple(a->part.begin, a->part.size, a->part.first) <
           std::tuple(b->part.begin, b->part.size, b->part.first);
  });
  const int dim = pieces.front()->part.dim;
  int64_t slice_end = 0;  // along dim
  for (size_t i = 0; i < pieces.size();) {
    const TensorPart& slice = pieces[i]->part;
    const auto fail = [&](const std::string& expected) {
      throw ConfigError(path, PrintableName(PieceName(*pieces[i])), PartText(pieces[i]->part),
                        expected);
    };
    if (slice.dim != dim || slice.begin != slice_end) {
      fail(Concat("the piece from index ", slice_end, " of dim ", dim));
    }
    const int64_t elements = WholeSlice(shape, dim, slice.begin, slice.size, slice.size).count;
    int64_t range_end = 0;
    for (; i < pieces.size() && pieces[i]->part.begin == slice.begin &&
           pieces[i]->part.size == slice.size;
         ++i) {
      if (pieces[i]->part.dim != dim || pieces[i]->part.first != range_end) {
        fail(Concat("the piece from element ", range_end));
      }
      range_end += pieces[i]->part.count;
    }
    if (range_end != elements) {
      --i;
      fail(Concat("elements up to ", elements, " of the slice"));
    }
    slice_end = slice.begin + slice.size;
  }
  if (slice_end != shape[dim]) {
    throw ConfigError(path, PrintableName(PieceName(*pieces.back())),
                      Concat("the last piece, up to index ", slice_end, " of dim ", dim),
                      Concat("pieces up to ", shape[dim]));
  }
}

}  // namespace

std::string_view ToString(StateKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::optional<StateKind> StateKindFromString(std::string_view text) {
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == text) return static_cast<StateKind>(i);
  }
  return std::nullopt;
}

bool Manifest::HasOptimizerState() const {
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const Piece& piece) { return piece.kind != StateKind::kWeight; });
}

std::string PieceName(const Piece& piece) {
  const TensorPart& part = piece.part;
  return Concat(piece.parameter, "/", ToString(piece.kind), "/", part.begin, ":",
                part.begin + part.size, "/", part.first);
}

std::vector<CheckpointParameter> CheckpointParameters(const spec::ModelSpec& model) {
  std::vector<CheckpointParameter> parameters;
  for (spec::ParameterSpec& parameter : spec::ModelParameters(model)) {
    parameters.push_back({std::move(parameter.name), std::move(parameter.global_shape)});
  }
  return parameters;
}

void CheckPieces(const Manifest& manifest, const std::string& path) {
  const auto shapes = ShapesOf(manifest, path);
  std::map<std::pair<std::string, StateKind>, std::vector<const Piece*>> pieces;
  for (const Piece& piece : manifest.pieces) {
    const auto shape = shapes.find(piece.parameter);
    if (shape == shapes.end()) {
      throw ConfigError(path, PrintableName(PieceName(piece)), "a piece of an unknown parameter",
                        "a name under /parameters");
    }
    if (piece.file < 0 || piece.file >= static_cast<int>(manifest.files.size())) {
      throw ConfigError(path, PrintableName(PieceName(piece)), Concat("file ", piece.file),
                        Concat("an index below ", manifest.files.size()));
    }
    CheckRange(piece, shape->second, path);
    if (piece.part.count > 0) pieces[{piece.parameter, piece.kind}].push_back(&piece);
  }
  std::vector<StateKind> kinds = {StateKind::kWeight};
  if (manifest.HasOptimizerState()) kinds = {StateKind::kWeight, StateKind::kM, StateKind::kV};
  for (const auto& [name, shape] : shapes) {
    for (const StateKind kind : kinds) {
      const auto found = pieces.find({name, kind});
      if (found == pieces.end()) {
        throw ConfigError(path, Concat("parameter '", PrintableName(name), "'"),
                          Concat("no piece of kind ", ToString(kind)), "all of its elements");
      }
      CheckTiling(found->second, shape, path);
    }
  }
}

}  // namespace tessera::engine
