// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/signals.h"

#include <chrono>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

namespace duetime::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SignalsTest : public ::testing::Test {
 protected:
  void SetUp() override { BlockSignals(); }

  // Sends the signal to this thread, so that no other thread of the test program receives it.
  static void Send(int number) { ASSERT_EQ(pthread_kill(pthread_self(), number), 0); }
};

TEST_F(SignalsTest, ASignalStaysPendingUntilAWait) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    Send(signal);
    EXPECT_EQ(WaitForSignal(seconds(30)), signal);
  }
  EXPECT_EQ(WaitForSignal(milliseconds(1)), 0);
}

TEST_F(SignalsTest, AHangUpIsNoReasonToStop) {
  Send(SIGHUP);
  EXPECT_FALSE(StopSignalWithin(milliseconds(0)));
  EXPECT_EQ(WaitForSignal(seconds(30)), SIGHUP) << "it is still there for the reload";
}

TEST_F(SignalsTest, WaitingForOneEndsWithItOrWithTheTime) {
  EXPECT_FALSE(StopSignalWithin(milliseconds(1)));
  Send(SIGTERM);
  EXPECT_TRUE(StopSignalWithin(seconds(30)));
  EXPECT_FALSE(StopSignalWithin(milliseconds(0)));
}

TEST_F(SignalsTest, ABrokenPipeIsNoReasonToDie) { Send(SIGPIPE); }

}  // namespace
}  // namespace duetime::runtime
