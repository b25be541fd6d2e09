#include "cost_model/spec/model_spec.h"

#include "cost_model/spec/enum_names.h"

namespace tessera::spec {
namespace {

constexpr EnumNames<NormKind, 2> kNormKinds = {
    {{NormKind::kLayerNorm, "layernorm"}, {NormKind::kRmsNorm, "rmsnorm"}}};
constexpr EnumNames<PositionKind, 3> kPositionKinds = {{{PositionKind::kLearned, "learned"},
                                                        {PositionKind::kRope, "rope"},
                                                        {PositionKind::kNone, "none"}}};
constexpr EnumNames<ActivationKind, 2> kActivationKinds = {
    {{ActivationKind::kGelu, "gelu"}, {ActivationKind::kSwiGlu, "swiglu"}}};

}  // namespace

std::string_view ToString(NormKind kind) { return NameOf(kNormKinds, kind); }
std::string_view ToString(PositionKind kind) { return NameOf(kPositionKinds, kind); }
std::string_view ToString(ActivationKind kind) { return NameOf(kActivationKinds, kind); }

}  // namespace tessera::spec
