// SPDX-License-Identifier: Apache-2.0

package duetimetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
)

func TestMain(m *testing.M) {
	if os.Getenv("DUETIMETEST_WAITS") != "" {
		startAndWait()
	}
	if _, err := find(""); err != nil && os.Getenv("DUETIMED") == "" {
		fmt.Println("skipped:", err)
		return
	}
	os.Exit(m.Run())
}

func startAndWait() {
	address, _, err := start(Options{})
	fmt.Println(address, err)
	select {}
}

func TestTheClockMovesByRequestOnly(t *testing.T) {
	server := New(t)
	clock := server.Clock
	if !clock.Now().Equal(Start) {
		t.Fatal(clock.Now())
	}
	clock.Advance(time.Hour)
	clock.AdvanceTo(Start.Add(48 * time.Hour))
	if _, err := server.Client().Schedule(context.Background(),
		duetime.Message{Topic: "next", When: duetime.After(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if next := clock.Next(); next.Fired != 1 || !clock.Now().Equal(Start.Add(49*time.Hour)) {
		t.Fatal(next)
	}
	if nothing := clock.NextUntil(Start.Add(50 * time.Hour)); nothing.Stop != pb.Advanced_STOP_NOTHING {
		t.Fatal(nothing)
	}
}

func TestIdleWaitsForHandlersAndAMoveForItsTimeout(t *testing.T) {
	server, ctx := New(t), context.Background()
	ended := make(chan string, 2)
	server.Subscribe(duetime.SubscriberOptions{Topic: "slow"}, func(context.Context, *duetime.Delivery) duetime.Settlement {
		time.Sleep(300 * time.Millisecond)
		ended <- ""
		return duetime.Ack()
	})
	client := server.Client()
	for _, delay := range []time.Duration{0, time.Hour} {
		if _, err := client.Schedule(ctx, duetime.Message{Topic: "slow", When: duetime.After(delay)}); err != nil {
			t.Fatal(err)
		}
		if delay == 0 {
			server.Idle()
		}
	}
	if len(ended) != 1 || !server.Clock.Now().Equal(Start) {
		t.Fatal(len(ended), server.Clock.Now())
	}
	_, err := server.Clock.Move(ctx, &pb.AdvanceRequest{Target: &pb.AdvanceRequest_By{By: durationpb.New(2 * time.Hour)},
		Limits: &pb.AdvanceLimits{UntilIdle: true, Timeout: durationpb.New(50 * time.Millisecond)}})
	var failure *duetime.Error
	if !errors.As(err, &failure) || failure.Code != codes.DeadlineExceeded {
		t.Fatal(err)
	}
	got := server.Deliveries("slow")
	if last := got[len(got)-1]; !last.GetTime().AsTime().Equal(Start.Add(time.Hour)) || last.Attempt != 1 {
		t.Fatal(got)
	}
}

func TestAKilledTestLeavesNoServer(t *testing.T) {
	folder := t.TempDir()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "DUETIMETEST_WAITS=1", "TMPDIR="+folder)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasSuffix(line, " <nil>\n") || entries(t, folder) != 1 {
		t.Fatal(line, err)
	}
	_ = command.Process.Kill()
	_ = command.Wait()
	for end := time.Now().Add(30 * time.Second); entries(t, folder) > 0; time.Sleep(poll) {
		if time.Now().After(end) {
			t.Fatal("the server is still there")
		}
	}
}

func entries(t *testing.T, folder string) int {
	t.Helper()
	found, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	for _, c := range []struct {
		options Options
		text    string
	}{
		{Options{Binary: "/nowhere/duetimed"}, "or on PATH"},
		{Options{At: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)}, "test_clock"},
		{Options{Binary: "false"}, "did not start"},
	} {
		if _, _, err := start(c.options); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Error(c.text, err)
		}
	}
}

func TestTheReadmeHasTheExamples(t *testing.T) {
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tests, _ := strings.Cut(string(examples), "\nfunc ")
	if !strings.Contains(string(readme), "```go\nfunc "+tests+"```") {
		t.Fatal("README.md has other tests than example_test.go")
	}
}
