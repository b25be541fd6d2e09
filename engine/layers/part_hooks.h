// What happens around a pass through a part of the model: parameters that are not here for good
// arrive before it, gradients that are not kept leave after it.
#pragma once

namespace tessera::engine {

// Parts have the numbers of spec::ParameterSpec::layer. The embedding's backward pass reads no
// parameters; a head that is tied to the embedding uses that of the same virtual stage.
class PartHooks {
 public:
  virtual ~PartHooks() = default;
  virtual void BeforeForward(int part) = 0;
  virtual void BeforeBackward(int part) = 0;
  // The micro-batch changes no gradient of the part any more.
  virtual void AfterBackward(int part) = 0;
};

}  // namespace tessera::engine
