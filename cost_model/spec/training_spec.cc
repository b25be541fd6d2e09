#include "cost_model/spec/training_spec.h"

#include "cost_model/spec/enum_names.h"

namespace tessera::spec {
namespace {

constexpr EnumNames<Precision, 5> kPrecisions = {{{Precision::kFp32, "fp32"},
                                                  {Precision::kBf16, "bf16"},
                                                  {Precision::kFp16, "fp16"},
                                                  {Precision::kFp8, "fp8"},
                                                  {Precision::kFp4, "fp4"}}};
constexpr EnumNames<LrDecayStyle, 5> kLrDecayStyles = {
    {{LrDecayStyle::kConstant, "constant"},
     {LrDecayStyle::kLinear, "linear"},
     {LrDecayStyle::kCosine, "cosine"},
     {LrDecayStyle::kInverseSquareRoot, "inverse-square-root"},
     {LrDecayStyle::kWsd, "wsd"}}};
constexpr EnumNames<WsdDecayStyle, 4> kWsdDecayStyles = {
    {{WsdDecayStyle::kLinear, "linear"},
     {WsdDecayStyle::kCosine, "cosine"},
     {WsdDecayStyle::kExponential, "exponential"},
     {WsdDecayStyle::kMinusSqrt, "minus-sqrt"}}};
constexpr EnumNames<WeightDecayStyle, 3> kWeightDecayStyles = {
    {{WeightDecayStyle::kConstant, "constant"},
     {WeightDecayStyle::kLinear, "linear"},
     {WeightDecayStyle::kCosine, "cosine"}}};

}  // namespace

std::string_view ToString(Precision precision) { return NameOf(kPrecisions, precision); }
std::string_view ToString(LrDecayStyle style) { return NameOf(kLrDecayStyles, style); }
std::string_view ToString(WsdDecayStyle style) { return NameOf(kWsdDecayStyles, style); }
std::string_view ToString(WeightDecayStyle style) { return NameOf(kWeightDecayStyles, style); }

std::optional<Precision> PrecisionFromString(std::string_view text) {
  return ValueOf(kPrecisions, text);
}

}  // namespace tessera::spec
