// Stands in for CUDA's header of this name where CUDA sources are compiled for the host.
#pragma once

#include "tests/cuda_emulation/device/atomics.h"
#include "tests/cuda_emulation/device/math_functions.h"
#include "tests/cuda_emulation/device/qualifiers.h"
#include "tests/cuda_emulation/device/synchronization.h"
#include "tests/cuda_emulation/device/vector_types.h"
#include "tests/cuda_emulation/runtime/launch_api.h"
#include "tests/cuda_emulation/runtime/runtime_api.h"
#include "tests/cuda_emulation/runtime/runtime_types.h"
