#pragma once

namespace tessera::testing {

// Sizes of the axes of a layout.
struct Mesh {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  int vpp = 1;
};

}  // namespace tessera::testing
