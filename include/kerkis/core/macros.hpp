// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that device code may call too. Kokkos has a macro of the same meaning; this one keeps `core/`,
/// which knows the standard library only, usable from kernels.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define KERKIS_FUNCTION __host__ __device__
#else
#define KERKIS_FUNCTION
#endif
