#include "engine/data/blended_source.h"

#include <algorithm>
#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

using Sources = std::vector<std::unique_ptr<SampleSource>>;

class BlendedSource final : public SampleSource {
 public:
  BlendedSource(Sources sources, BlendIndex index)
      : sources_(std::move(sources)), index_(std::move(index)) {}

  void Read(int64_t sample, int32_t* tokens) const override {
    TESSERA_CHECK(sample >= 0 && sample < num_samples(), "sample ", sample, " of a blend of ",
                  num_samples());
    const auto i = static_cast<size_t>(sample);
    sources_[index_.data_set[i]]->Read(int64_t{index_.sample[i]}, tokens);
  }
  int64_t sequence_length() const override { return sources_.front()->sequence_length(); }
  int64_t num_samples() const override { return static_cast<int64_t>(index_.sample.size()); }
  int32_t max_token() const override {
    int32_t highest = -1;
    for (const auto& source : sources_) highest = std::max(highest, source->max_token());
    return highest;
  }

 private:
  Sources sources_;
  BlendIndex index_;
};

std::unique_ptr<SampleSource> OpenPart(const DataOptions& options, const std::string& path,
                                       int64_t num_samples) {
  DataOptions part = options;
  part.blend.clear();
  part.path = path;
  part.num_samples = num_samples;
  return OpenSampleSource(part);
}

std::unique_ptr<SampleSource> OpenWeighted(const DataOptions& options) {
  TESSERA_CHECK(options.num_samples > 0, "a blend with weights of ", options.num_samples,
                " samples");
  std::vector<double> weights;
  for (const BlendPart& part : options.blend) weights.push_back(part.weight);
  const std::vector<double> shares = BlendShares(weights);
  Sources sources;
  for (size_t i = 0; i < shares.size(); ++i) {
    sources.push_back(
        OpenPart(options, options.blend[i].path, BlendSamplesOf(shares[i], options.num_samples)));
  }
  return std::make_unique<BlendedSource>(std::move(sources),
                                         MakeBlendIndex(shares, options.num_samples));
}

// Each data set counts by its samples, and is read once.
std::unique_ptr<SampleSource> OpenUnweighted(const DataOptions& options) {
  Sources sources;
  std::vector<double> weights;
  int64_t total = 0;
  for (const BlendPart& part : options.blend) {
    sources.push_back(OpenPart(options, part.path, /*num_samples=*/0));
    weights.push_back(static_cast<double>(sources.back()->num_samples()));
    total += sources.back()->num_samples();
  }
  const int64_t wanted = options.num_samples == 0 ? total : options.num_samples;
  if (wanted > total && options.order == DataOrder::kShuffled) {
    throw base::ConfigError(
        ToString(options.blend), "",
        base::Concat(total, " samples in the ", ToString(options.part),
                     " part of data sets without weights"),
        base::Concat("at least ", wanted, " (a weight before each path lets it be repeated)"));
  }
  return std::make_unique<BlendedSource>(std::move(sources),
                                         MakeBlendIndex(BlendShares(weights), wanted));
}

}  // namespace

std::unique_ptr<SampleSource> OpenBlendedSource(const DataOptions& options) {
  const bool has_weights = std::any_of(options.blend.begin(), options.blend.end(),
                                       [](const BlendPart& part) { return part.weight > 0; });
  return has_weights ? OpenWeighted(options) : OpenUnweighted(options);
}

}  // namespace tessera::engine
