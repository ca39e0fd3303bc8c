// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// startScript starts a script that prints one line, and returns the line.
func startScript(t *testing.T, script string) (*server, string) {
	cmd := exec.Command("bash", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: cmd}
	t.Cleanup(s.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return s, strings.TrimSpace(line)
}

func TestKillEndsAProcessWhoseParentHasEnded(t *testing.T) {
	s, line := startScript(t, "(sleep 60 >/dev/null & echo $!); exec sleep 60 >/dev/null")
	orphan, _ := strconv.Atoi(line)
	// The shell between both may not have ended yet.
	if found := fmt.Sprint(s.processes()); !strings.Contains(found, line) {
		t.Fatalf("the processes are %v, the orphan %d", found, orphan)
	}
	s.kill()
	if runs(orphan) || s.processes() != nil {
		t.Errorf("process %d still runs", orphan)
	}
}

func TestFreePortsAreDifferent(t *testing.T) {
	found := map[int]bool{}
	for _, port := range freePorts(portsEach) {
		found[port] = true
	}
	if len(found) != portsEach {
		t.Errorf("the ports are %v", found)
	}
}
