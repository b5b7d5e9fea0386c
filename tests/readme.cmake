# SPDX-License-Identifier: Apache-2.0
# The program in the README is the one that is compiled: examples/hybrid_gpt.cpp behind its first line.
file(READ ${SOURCE}/README.md readme)
file(READ ${SOURCE}/examples/hybrid_gpt.cpp program)
string(FIND "${program}" "\n" first_line)
math(EXPR rest "${first_line} + 1")
string(SUBSTRING "${program}" ${rest} -1 program)
string(FIND "${readme}" "```cpp\n${program}```" found)
if(found EQUAL -1)
  message(FATAL_ERROR "README.md does not show examples/hybrid_gpt.cpp as it is")
endif()
