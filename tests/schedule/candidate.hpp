// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include <kerkis/schedule/table.hpp>

/// Tables that tests change.
using List = std::vector<kerkis::schedule::Action>;

struct Candidate {
  kerkis::schedule::PipelineShape shape;
  std::vector<List> lists;
  std::vector<int> stages;  // of rank * chunks + chunk
  kerkis::schedule::Purpose purpose = kerkis::schedule::Purpose::training;
  int feedback = 0;

  kerkis::schedule::Table table() const {
    std::vector<kerkis::schedule::ActionList> all;
    for (const List& list : lists) {
      kerkis::schedule::ActionList& mine = all.emplace_back();
      for (const kerkis::schedule::Action& action : list) mine.append(action);
    }
    return kerkis::schedule::Table(shape, std::move(all), stages, purpose, feedback);
  }
};

inline Candidate candidate(const kerkis::schedule::Table& table) {
  Candidate result{table.shape(), {}, {}, table.purpose(), table.feedback()};
  for (int rank = 0; rank < table.ranks(); ++rank) {
    result.lists.emplace_back(table.actions(rank).begin(), table.actions(rank).end());
    for (int chunk = 0; chunk < table.chunks(); ++chunk) result.stages.push_back(table.stage(rank, chunk));
  }
  return result;
}

/// One random change of one list: two actions swapped, one left out, one listed again, or one with another microbatch
/// or kind.
inline void mutate(Candidate& c, std::mt19937& random) {
  List& list = c.lists[random() % c.lists.size()];
  if (list.empty()) return;
  const std::size_t at = random() % list.size();
  const std::size_t other = random() % list.size();
  switch (random() % 5) {
  case 0:
    std::swap(list[at], list[other]);
    break;
  case 1:
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    break;
  case 2:
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), list[other]);
    break;
  case 3:
    list[at].microbatch += random() % 2 == 0 ? 1 : -1;
    break;
  default:
    list[at].kind = static_cast<kerkis::schedule::ActionKind>(random() % 4);
    break;
  }
}
