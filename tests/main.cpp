// SPDX-License-Identifier: Apache-2.0
#include <kerkis/testing/main.hpp>
