// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

/// Of at least one value; between the two in the middle if their number is even.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}
