// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: kerkis: a round whose Request is dropped is waited for at once
#include <kerkis/comm/persistent.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wunused-result"

void both(kerkis::PersistentRequest& receive, kerkis::PersistentRequest& send) {
#if KERKIS_MISTAKE == 1
  receive.start();
#else
  const kerkis::Request comes = receive.start();
#endif
  send.start().wait();
}

#pragma GCC diagnostic pop
