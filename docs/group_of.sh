#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Doxygen reads each file through this: what a header has goes into the group of its folder (see groups.dox), and what it says of a page
# becomes a link. Lines keep their numbers.
case $1 in
  */kerkis/*/*.hpp)
    # The last two are what Doxygen 1.9 takes for endless recursion, and a scope that it does not know.
    sed -e "s|^namespace kerkis.* {\$|& /** @addtogroup folder_$(basename "$(dirname "$1")") */ /** @{ */|" \
      -e 's|docs/[a-z_]*\.md|@ref &|' \
      -e 's|^}  // namespace kerkis|/** @} */ &|' \
      -e 's|^\(struct plan_traits\) : .*|\1 {};|' -e 's|^struct std::numeric_limits<|struct limits_of<|' "$1"
    ;;
  *) cat "$1" ;;
esac
