// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// portsEach is how many ports a server gets; most need one.
const portsEach = 6

// server is the processes of a peer, which descend from one, with a directory and ports that outlive them.
type server struct {
	folder string
	ports  []int
	cmd    *exec.Cmd
}

// at returns an address, by the number of its port.
func (s *server) at(number int) string { return fmt.Sprintf("127.0.0.1:%d", s.ports[number]) }

// addresses returns the first ones of this number, with commas between them.
func (s *server) addresses(count int) string {
	text := s.at(0)
	for i := 1; i < count; i++ {
		text += "," + s.at(i)
	}
	return text
}

func (s *server) data() string { return filepath.Join(s.folder, "data") }

// command prepares a program with its output in a log. asUser names the user for a program that refuses to run as root.
func (s *server) command(asUser string, words []string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	// A process group of its own, so that Ctrl-C reaches only this program, which then ends the server.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if asUser != "" && os.Geteuid() == 0 {
		account, err := user.Lookup(asUser)
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		if err := os.Chown(s.folder, uid, gid); err != nil {
			return nil, err
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return cmd, nil
}

// kill ends all processes of the server with SIGKILL and waits for their end.
func (s *server) kill() {
	cmd := s.cmd
	if cmd == nil {
		return
	}
	ends := s.processes()
	for _, pid := range ends {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	// Also what has started since.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
	for _, pid := range ends {
		for runs(pid) {
			time.Sleep(time.Millisecond)
		}
	}
	s.cmd = nil
}

// killOne ends the process whose command line has this text with SIGKILL. The first process is a shell that has all of them in
// its command line.
func (s *server) killOne(text string) error {
	for i, pid := range s.processes() {
		if i == 0 {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Contains(line, []byte(text)) {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("no process has %q in its command line", text)
}

// statFields returns the fields of /proc/PID/stat that follow the name: the state is the first.
func statFields(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// runs tells whether a process has not ended. A zombie has, even if nobody has waited for it.
func runs(pid int) bool {
	fields := statFields(pid)
	return len(fields) > 0 && fields[0] != "Z"
}

// processes returns the server's first process, its descendants, and other processes of its group, whose parent has ended.
func (s *server) processes() []int {
	cmd := s.cmd
	if cmd == nil {
		return nil
	}
	first := cmd.Process.Pid
	folders, _ := filepath.Glob("/proc/[0-9]*")
	children := map[string][]int{}
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		if fields := statFields(pid); len(fields) > 2 && pid != first {
			parent := fields[1]
			if group := fields[2]; group == strconv.Itoa(first) {
				parent = group
			}
			children[parent] = append(children[parent], pid)
		}
	}
	tree := []int{first}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[strconv.Itoa(tree[i])]...)
	}
	return tree
}

// cpu returns the CPU time of all processes, with that of ended children. The kernel counts it in ticks of 10 ms.
func (s *server) cpu() time.Duration {
	var ticks int64
	for _, pid := range s.processes() {
		if fields := statFields(pid); len(fields) > 14 {
			for _, field := range fields[11:15] { // utime, stime, cutime, cstime
				count, _ := strconv.ParseInt(field, 10, 64)
				ticks += count
			}
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// procNumber returns the number behind a name in a file of /proc/PID; 0 without one.
func procNumber(pid int, file, name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			value, _ := strconv.ParseInt(fields[1], 10, 64)
			return value
		}
	}
	return 0
}

// written returns the bytes that all processes gave to the disk. The kernel adds those of an ended child to its parent's.
func (s *server) written() (sum int64) {
	for _, pid := range s.processes() {
		sum += procNumber(pid, "io", "write_bytes:")
	}
	return sum
}

// memory returns the bytes in memory of all processes; pages that they share count once.
func (s *server) memory() (sum int64) {
	for _, pid := range s.processes() {
		sum += procNumber(pid, "smaps_rollup", "Pss:") << 10 // from KiB
	}
	return sum
}

// disk returns the bytes of all files, without holes and without blocks that are reserved behind the end of a file.
func (s *server) disk() int64 {
	var sum int64
	_ = filepath.WalkDir(s.data(), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // A file that is gone meanwhile.
		}
		if info, err := entry.Info(); err == nil {
			size, blocks := info.Size(), info.Sys().(*syscall.Stat_t).Blocks*512
			if size > blocks {
				size = blocks
			}
			sum += size
		}
		return nil
	})
	return sum
}

// ownCPU returns the CPU time of this program, the client.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// freePorts returns ports on which nothing listens, from below those that the system gives to clients, so that no client takes
// the port of a server that is down. deploy/cell/brokers.sh takes its ports from below 30000.
func freePorts(count int) []int {
	var ports []int
	for port := 30000 + rand.New(rand.NewSource(time.Now().UnixNano())).Intn(2000); len(ports) < count; port++ {
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			listener.Close()
			ports = append(ports, port)
		}
	}
	return ports
}
